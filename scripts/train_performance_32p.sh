#!/usr/bin/env bash
# Speed of Mask R-CNN R101-FPN on 32 ranks, 8 on each of 4 machines. --help lists the arguments.
#   scripts/train_performance_32p.sh --data_path=/data --conf_path=/conf
set -euo pipefail
cd "$(dirname "$0")/.."
network=Mask_RCNN_for_PyTorch config=configs/COCO-InstanceSegmentation/mask_rcnn_R_101_FPN_3x.yaml
ranks=32 batch=256 steps=400 lr=0.02 workers=8 perf=no suffix=perf nodes=conf
. scripts/lib/reference.sh
reference_main "$@"
