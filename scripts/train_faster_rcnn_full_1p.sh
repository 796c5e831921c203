#!/usr/bin/env bash
# Trains and evaluates Faster R-CNN R101-FPN on one rank. --help lists the arguments.
#   scripts/train_faster_rcnn_full_1p.sh --data_path=/data
set -euo pipefail
cd "$(dirname "$0")/.."
network=Faster_RCNN_for_PyTorch config=configs/COCO-Detection/faster_rcnn_R_101_FPN_3x.yaml
ranks=1 batch=8 steps=90000 lr=0.0025 workers=4 perf=no suffix=acc nodes=one
. scripts/lib/reference.sh
reference_main "$@"
