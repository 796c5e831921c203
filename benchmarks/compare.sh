#!/usr/bin/env bash
# Trains the same network with DetForge and with Debian's torchvision (YOLOv3: plain PyTorch), alternately, on this machine, and prints
# the ratio.
#   benchmarks/compare.sh [ROUNDS] [faster|mask|yolo]       default 3, faster
# Mask R-CNN gets 128 objects per image: all are sampled as foreground, so both train 128 masks, as real data does.
# Needs the release build and scripts/setup.sh --tests. Run it on an otherwise idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
model=${2:-faster}
threads=$(nproc)
peer=(benchmarks/peers/torchvision_train.py --model "$model")
shapes=("800x1344 1 2" "320x512 2 4")
case $model in
  faster) config=configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml objects=8 ;;
  mask) config=configs/COCO-InstanceSegmentation/mask_rcnn_R_50_FPN_1x.yaml objects=128 ;;
  yolo)
    config=configs/COCO-YOLOv3/yolov3_d53_416_273e.yaml objects=8
    peer=(benchmarks/peers/yolov3_train.py)
    shapes=("416x416 4 2" "608x608 1 3")
    ;;
  *) echo "the model is faster, mask or yolo, not $model" >&2; exit 2 ;;
esac
# OpenBLAS does not know every CPU. DetForge then chooses its kernels; the peer gets the same ones.
kernels=$(build/release/bin/detforge doctor 2>/dev/null | sed -n 's/^BLAS .*NO_AFFINITY \([A-Za-z]*\) .*/\1/p')
[ -z "$kernels" ] || export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$kernels}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for shape in "${shapes[@]}"; do
  read -r size batch iters <<<"$shape"
  for ((round = 1; round <= rounds; ++round)); do
    build/release/bin/detforge bench train "$config" --size "$size" --batch "$batch" --iters "$iters" \
      --objects "$objects" --threads "$threads" --json "$out/ours" >/dev/null
    cat "$out/ours" >>"$out/ours.$size"
    /usr/bin/python3 "${peer[@]}" --objects "$objects" --size "$size" --batch "$batch" --iters "$iters" \
      --threads "$threads" >>"$out/peer.$size"
    echo "round $round of $rounds at $size done" >&2
  done
  /usr/bin/python3 - "$size" "$batch" "$out/ours.$size" "$out/peer.$size" <<'PY'
import json, statistics, sys
size, batch, ours_file, peer_file = sys.argv[1:]
ours, peer = ([json.loads(line) for line in open(name)] for name in (ours_file, peer_file))
rate = lambda runs: statistics.median(run["images_per_s"] for run in runs)
memory = lambda runs: max(run["peak_rss_mib"] for run in runs)
print(f"{size} batch {batch}: DetForge {rate(ours):.3f} img/s, {memory(ours)} MiB; "
      f"{peer[0]['program'].split()[0]} {rate(peer):.3f} img/s, {memory(peer)} MiB; ratio {rate(ours) / rate(peer):.2f}")
PY
done
