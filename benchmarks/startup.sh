#!/usr/bin/env bash
# Wall time of the commands that must not wait for LibTorch: median of ROUNDS warm starts, in ms. Aim: under 100.
#   benchmarks/startup.sh [ROUNDS]       default 21
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-21}
detforge=${DETFORGE_BIN:-build/release/bin/detforge}

measure() {
  local times=()
  for ((round = 0; round < rounds; ++round)); do
    local start=$EPOCHREALTIME
    "$detforge" "$@" >/dev/null 2>&1 || true
    local end=$EPOCHREALTIME
    times+=($((${end/./} - ${start/./})))
  done
  printf '%s\n' "${times[@]}" | sort -n | awk -v name="detforge $*" '{t[NR] = $1} END {printf "%-60s %6.1f ms\n", name, t[int((NR + 1) / 2)] / 1000}'
}

measure --help
measure train --help
measure train --no-such-option
measure config configs/shapes.yaml
measure config configs/shapes.yaml SOLVER.BASE_LRR 1
