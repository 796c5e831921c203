#!/usr/bin/env bash
# Speed of Mask R-CNN R101-FPN on one rank. --help lists the arguments.
#   scripts/train_performance_1p.sh --data_path=/data
set -euo pipefail
cd "$(dirname "$0")/.."
network=Mask_RCNN_for_PyTorch config=configs/COCO-InstanceSegmentation/mask_rcnn_R_101_FPN_3x.yaml
ranks=1 batch=8 steps=400 lr=0.0025 workers=4 perf=yes suffix=perf nodes=one
. scripts/lib/reference.sh
reference_main "$@"
