#!/usr/bin/env bash
# Speed of Mask R-CNN R101-FPN on 64 ranks, 8 on each of 8 machines. --help lists the arguments.
#   scripts/train_performance_64p.sh --data_path=/data --conf_path=/conf
set -euo pipefail
cd "$(dirname "$0")/.."
network=Mask_RCNN_for_PyTorch config=configs/COCO-InstanceSegmentation/mask_rcnn_R_101_FPN_3x.yaml
ranks=64 batch=512 steps=800 lr=0.02 workers=8 perf=no suffix=perf nodes=conf
. scripts/lib/reference.sh
reference_main "$@"
