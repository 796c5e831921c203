#!/usr/bin/env bash
# Speed of Faster R-CNN R101-FPN on one rank, with an evaluation. --help lists the arguments.
#   scripts/train_faster_rcnn_performance_1p.sh --data_path=/data
set -euo pipefail
cd "$(dirname "$0")/.."
network=Faster_RCNN_for_PyTorch config=configs/COCO-Detection/faster_rcnn_R_101_FPN_3x.yaml
ranks=1 batch=8 steps=3000 lr=0.0025 workers=4 perf=no suffix=perf nodes=one
. scripts/lib/reference.sh
reference_main "$@"
