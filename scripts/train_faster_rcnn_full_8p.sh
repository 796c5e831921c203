#!/usr/bin/env bash
# Trains and evaluates Faster R-CNN R101-FPN on 8 ranks of this machine. --help lists the arguments.
#   scripts/train_faster_rcnn_full_8p.sh --data_path=/data
set -euo pipefail
cd "$(dirname "$0")/.."
network=Faster_RCNN_for_PyTorch config=configs/COCO-Detection/faster_rcnn_R_101_FPN_3x.yaml
ranks=8 batch=64 steps=11250 lr=0.02 workers=8 perf=no suffix=acc nodes=one
. scripts/lib/reference.sh
reference_main "$@"
