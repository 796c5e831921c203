#!/usr/bin/env bash
# Trains the same network with DetForge and with Debian's torchvision, alternately, on this machine, and prints the ratio.
#   benchmarks/compare.sh [ROUNDS]       default 3
# Needs the release build and scripts/setup.sh --tests. Run it on an otherwise idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
threads=$(nproc)
config=configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for shape in "800x1344 1 2" "320x512 2 4"; do
  read -r size batch iters <<<"$shape"
  for ((round = 1; round <= rounds; ++round)); do
    build/release/bin/detforge bench train "$config" --size "$size" --batch "$batch" --iters "$iters" \
      --threads "$threads" --json "$out/ours" >/dev/null
    cat "$out/ours" >>"$out/ours.$size"
    /usr/bin/python3 benchmarks/peers/torchvision_train.py --size "$size" --batch "$batch" --iters "$iters" \
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
      f"torchvision {rate(peer):.3f} img/s, {memory(peer)} MiB; ratio {rate(ours) / rate(peer):.2f}")
PY
done
