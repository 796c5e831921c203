#!/usr/bin/env bash
# Speed of Faster R-CNN R101-FPN on 8 ranks of each of several machines, with an evaluation. --help lists the arguments.
#   scripts/train_faster_rcnn_performance_multinodes.sh --data_path=/data --nnodes=2 --node_rank=0 --master_addr=10.0.0.1
set -euo pipefail
cd "$(dirname "$0")/.."
network=Faster_RCNN_for_PyTorch config=configs/COCO-Detection/faster_rcnn_R_101_FPN_3x.yaml
ranks=8 batch=64 steps=3000 lr=0.02 workers=8 perf=no suffix=perf nodes=args
. scripts/lib/reference.sh
reference_main "$@"
