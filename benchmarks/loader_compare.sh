#!/bin/bash
# Images per second of one core: DetForge's loader against the same work in Pillow + NumPy, run in turns.
#   benchmarks/loader_compare.sh [FOLDER_OF_JPEGS]     (default: made-up 640x480 pictures)
# Needs build/release/bin/loader_bench (or LOADER_BENCH=path) and Debian's python3-pil and python3-numpy.
set -euo pipefail
cd "$(dirname "$0")/.."

bench=${LOADER_BENCH:-build/release/bin/loader_bench}
rounds=${ROUNDS:-5}
seconds=${SECONDS_PER_ROUND:-4}
python=/usr/bin/python3
peer=benchmarks/peers/pillow_loader.py

folder=${1:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  $python $peer make-images "$folder"
fi

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
echo "round  detforge  pillow+numpy  (images/s of CPU time, one thread)"
ours=() theirs=()
for round in $(seq "$rounds"); do
  a=$(taskset -c 0 "$bench" "$folder" "$seconds")
  b=$(taskset -c 0 $python $peer "$folder" "$seconds")
  ours+=("$a") theirs+=("$b")
  printf '%5d  %8s  %12s\n' "$round" "$a" "$b"
done

median() { printf '%s\n' "$@" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
a=$(median "${ours[@]}")
b=$(median "${theirs[@]}")
awk -v a="$a" -v b="$b" 'BEGIN {printf "median %s against %s images/s: %.2f times\n", a, b, a / b}'
