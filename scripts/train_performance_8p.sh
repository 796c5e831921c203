#!/usr/bin/env bash
# Speed of Mask R-CNN R101-FPN on 8 ranks of this machine. --help lists the arguments.
#   scripts/train_performance_8p.sh --data_path=/data
set -euo pipefail
cd "$(dirname "$0")/.."
network=Mask_RCNN_for_PyTorch config=configs/COCO-InstanceSegmentation/mask_rcnn_R_101_FPN_3x.yaml
ranks=8 batch=64 steps=200 lr=0.02 workers=8 perf=yes suffix=perf nodes=one
. scripts/lib/reference.sh
reference_main "$@"
