#!/usr/bin/env bash
# Speed of Faster R-CNN R101-FPN on 8 ranks of this machine, with an evaluation. --help lists the arguments.
#   scripts/train_faster_rcnn_performance_8p.sh --data_path=/data
set -euo pipefail
cd "$(dirname "$0")/.."
network=Faster_RCNN_for_PyTorch config=configs/COCO-Detection/faster_rcnn_R_101_FPN_3x.yaml
ranks=8 batch=64 steps=3000 lr=0.02 workers=8 perf=no suffix=perf nodes=one
. scripts/lib/reference.sh
reference_main "$@"
