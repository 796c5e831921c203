#!/usr/bin/env bash
# How the cost of a step grows with the image, the batch and the threads: a table of DetForge alone.
#   benchmarks/growth.sh [OPTIONS]
#     --models faster,yolo         of faster, mask, yolo; default faster,yolo
#     --task train                 or eval
#     --sizes 320,512,800,1088,1344    sides of the square images, one at a time
#     --batches 1,2,4,8            images of the smallest size
#     --threads 1,2                default: 1 and all cores
#     --iters N                    timed steps each; default 3
#     --write                      put the table into docs/benchmarks.md
# Needs the release build. Run it on an otherwise idle machine; about 12 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
command="benchmarks/growth.sh${*:+ $*}"
models=faster,yolo task=train sizes=320,512,800,1088,1344 batches=1,2,4,8 threads=1,$(nproc) iters=3 write=no
while [ $# -gt 0 ]; do
  case $1 in
    --models) models=${2:?} && shift ;;
    --task) task=${2:?} && shift ;;
    --sizes) sizes=${2:?} && shift ;;
    --batches) batches=${2:?} && shift ;;
    --threads) threads=${2:?} && shift ;;
    --iters) iters=${2:?} && shift ;;
    --write) write=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown option $1: see benchmarks/growth.sh --help" >&2; exit 2 ;;
  esac
  shift
done
. benchmarks/measure.sh

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
first_size=${sizes%%,*}
measure() { # MODEL SIDE BATCH
  local count
  for count in ${threads//,/ }; do
    bench_ours "$1" "$task" "$2x$2" "$3" "$iters" "$count" "$out/$1.ours"
  done
  echo "$1 $task $2x$2, batch $3 done" >&2
}
for model in ${models//,/ }; do
  config_of "$model" >/dev/null
  for size in ${sizes//,/ }; do
    measure "$model" "$size" 1
  done
  for batch in ${batches//,/ }; do
    [ "$batch" = 1 ] || measure "$model" "$first_size" "$batch"
  done
done
{
  provenance "$command"
  echo
  "$python" benchmarks/tables.py growth "$out"
} >"$out/table"
cat "$out/table"
if [ $write = yes ]; then
  "$python" benchmarks/tables.py write docs/benchmarks.md growth.sh "$out/table"
fi
