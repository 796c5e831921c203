#!/usr/bin/env bash
# Speed of Mask R-CNN R101-FPN on 8 ranks of each of several machines. --help lists the arguments.
#   scripts/train_performance_multinodes.sh --data_path=/data --nnodes=2 --node_rank=0 --master_addr=10.0.0.1
set -euo pipefail
cd "$(dirname "$0")/.."
network=Mask_RCNN_for_PyTorch config=configs/COCO-InstanceSegmentation/mask_rcnn_R_101_FPN_3x.yaml
ranks=8 batch=64 steps=200 lr=0.02 workers=8 perf=yes suffix=perf nodes=args
. scripts/lib/reference.sh
reference_main "$@"
