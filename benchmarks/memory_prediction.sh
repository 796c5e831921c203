#!/usr/bin/env bash
# Compares what `detforge inspect --memory` predicts, from steps on smaller images, with the peak of a process that trains at the full
# size: every shipped recipe, a small and a large image, FP32 and O2.
#   benchmarks/memory_prediction.sh [OPTIONS] [RECIPE...]
#     --modes A,B                  default fp32,o2
#     --write                      put the table into docs/precision.md
# Needs the release build; about 20 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
command="benchmarks/memory_prediction.sh${*:+ $*}"
modes=fp32,o2 write=no recipes=()
while [ $# -gt 0 ]; do
  case $1 in
    --modes) modes=${2:?} && shift ;;
    --write) write=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "unknown option $1: see benchmarks/memory_prediction.sh --help" >&2; exit 2 ;;
    *) recipes+=("$1") ;;
  esac
  shift
done
. benchmarks/measure.sh
[ ${#recipes[@]} -gt 0 ] || mapfile -t recipes < <(find configs -name '*.yaml' ! -name 'Base-*' | sort)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
sizes_of() {
  case $1 in
    *yolo*) echo "320x320 608x608" ;;
    *COCO-* | *Misc*) echo "320x512 800x1344" ;;
    *) echo "256x256 512x512" ;;
  esac
}
{
  provenance "$command"
  echo
  echo "| recipe | image | mode | predicted, MiB | measured | difference |"
  echo "| --- | --- | --- | --- | --- | --- |"
} >"$out/table"
for recipe in "${recipes[@]}"; do
  for size in $(sizes_of "$recipe"); do
    for mode in ${modes//,/ }; do
      predicted=$("$detforge" inspect "$recipe" --size "$size" --memory --modes "$mode" 2>"$out/log" | awk 'END { print $NF }') ||
        { cat "$out/log" >&2; exit 1; }
      "$detforge" bench train "$recipe" --size "$size" --iters 1 --modes "$mode" --json "$out/json" >/dev/null 2>>"$out/log" ||
        { cat "$out/log" >&2; exit 1; }
      measured=$(sed 's/.*"peak_rss_mib":\([0-9]*\).*/\1/' "$out/json")
      awk -v p="$predicted" -v m="$measured" -v r="${recipe#configs/}" -v s="$size" -v o="$mode" \
        'BEGIN { printf "| `%s` | %s | %s | %d | %d | %+.1f %% |\n", r, s, o, p, m, 100 * (p / m - 1) }' | tee -a "$out/table" >&2
    done
  done
done
if [ $write = yes ]; then
  "$python" benchmarks/tables.py write docs/precision.md memory_prediction.sh "$out/table"
else
  cat "$out/table"
fi
