#!/usr/bin/env bash
# Evaluates Mask R-CNN R50-FPN 1x with Detectron2's weights.
#   scripts/eval.sh --data_path=/data [--weights=FILE] [KEY VALUE ...]
# /data/coco/{annotations,val2017}; the weights are /data/model_final_a54504.pkl if not given.
set -euo pipefail
cd "$(dirname "$0")/.."
data_path="" weights="" overrides=()
for word in "$@"; do
  case $word in
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --data_path=*) data_path=${word#*=} ;;
    --weights=*) weights=${word#*=} ;;
    --device_id=*) echo "--device_id has no effect here" >&2 ;;
    --*) echo "unknown argument $word: see $0 --help" >&2; exit 2 ;;
    *) overrides+=("$word") ;;
  esac
done
[ -n "$data_path" ] || { echo 'para "data_path" must be confing: --data_path=DIR' >&2; exit 1; }
exec "${DETFORGE_BIN:-build/release/bin/detforge}" eval configs/COCO-InstanceSegmentation/mask_rcnn_R_50_FPN_1x.yaml \
  --data "$data_path/coco" --weights "${weights:-$data_path/model_final_a54504.pkl}" --output runs/eval "${overrides[@]}"
