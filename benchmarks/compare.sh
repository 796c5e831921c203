#!/usr/bin/env bash
# Trains and runs the same networks with DetForge and with Debian's torchvision (YOLOv3: plain PyTorch), alternately in one run on
# this machine, and prints a table: images/s, seconds a step, peak memory, share of the machine's FMA peak, and the ratio.
#   benchmarks/compare.sh [OPTIONS]
#     --models faster,mask,yolo    which models; default all
#     --tasks train,eval           training steps, inference; default both
#     --rounds N                   how often each pair is run; the medians count; default 3
#     --threads N                  default: all cores
#     --smoke                      tiny images, once: only to see that it works
#     --write                      put the table into docs/benchmarks.md
# Needs the release build and scripts/setup.sh --tests. Run it on an otherwise idle machine; all of it takes about 25 minutes on two
# cores.
set -euo pipefail
cd "$(dirname "$0")/.."
command="benchmarks/compare.sh${*:+ $*}"
models=faster,mask,yolo tasks=train,eval rounds=3 threads=$(nproc) smoke=no write=no
while [ $# -gt 0 ]; do
  case $1 in
    --models) models=${2:?} && shift ;;
    --tasks) tasks=${2:?} && shift ;;
    --rounds) rounds=${2:?} && shift ;;
    --threads) threads=${2:?} && shift ;;
    --smoke) smoke=yes rounds=1 ;;
    --write) write=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown option $1: see benchmarks/compare.sh --help" >&2; exit 2 ;;
  esac
  shift
done
if [ $smoke$write = yesyes ]; then
  echo "--smoke measures nothing that belongs into docs/benchmarks.md: leave --write out" >&2
  exit 2
fi
. benchmarks/measure.sh

# Size, batch and timed steps of a model's cases.
cases_of() {
  if [ $smoke = yes ]; then
    echo "96x128 1 1"
  elif [ "$1" = yolo ]; then
    printf '%s\n' "416x416 4 2" "608x608 1 3"
  else
    printf '%s\n' "800x1344 1 2" "320x512 2 4"
  fi
}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for ((round = 1; round <= rounds; ++round)); do
  for model in ${models//,/ }; do
    config_of "$model" >/dev/null
    for task in ${tasks//,/ }; do
      while read -r size batch iters; do
        run=("$model" "$task" "$size" "$batch" "$iters" "$threads")
        bench_ours "${run[@]}" "$out/$model-$task-$size-$batch.ours"
        bench_peer "${run[@]}" "$out/$model-$task-$size-$batch.peer"
        echo "round $round of $rounds: $model $task $size done" >&2
      done < <(cases_of "$model")
    done
  done
done
{
  provenance "$command"
  echo "Medians of $rounds rounds, $threads threads."
  echo
  "$python" benchmarks/tables.py compare "$out"
} >"$out/table"
cat "$out/table"
if [ $write = yes ]; then
  "$python" benchmarks/tables.py write docs/benchmarks.md compare.sh "$out/table"
fi
