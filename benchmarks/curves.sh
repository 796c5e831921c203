#!/usr/bin/env bash
# Trains one recipe on DetForge's own convolutions, on LibTorch's, and on its own once more with another seed: loss curves and AP, as a
# table and as a picture. The two seeds show how far apart curves lie by chance.
#   benchmarks/curves.sh [OPTIONS]
#     --config FILE                default configs/nuclei.yaml
#     --data DIR                   the recipe's dataset; default ../shared/data/nuclei
#     --steps N                    default 500
#     --write                      put the table into docs/benchmarks.md and the picture into docs/pictures/curves.svg
# Needs the release build; about 8 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
command="benchmarks/curves.sh${*:+ $*}"
config=configs/nuclei.yaml data=../shared/data/nuclei steps=500 write=no
while [ $# -gt 0 ]; do
  case $1 in
    --config) config=${2:?} && shift ;;
    --data) data=${2:?} && shift ;;
    --steps) steps=${2:?} && shift ;;
    --write) write=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown option $1: see benchmarks/curves.sh --help" >&2; exit 2 ;;
  esac
  shift
done
. benchmarks/measure.sh
check_curve_steps "$steps"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
train() { # NAME KERNELS SEED
  DETFORGE_KERNELS=$2 train_curve "$1" "$config" "$data" "$out/$1" "$steps" "$3"
}
train "own kernels" own 1
train "LibTorch's" aten 1
train "own kernels, another seed" own 2
{
  provenance "$command"
  echo
  "$python" benchmarks/tables.py curves "$out" "$out/curves.svg"
} >"$out/table"
cat "$out/table"
if [ $write = yes ]; then
  cp "$out/curves.svg" docs/pictures/curves.svg
  "$python" benchmarks/tables.py write docs/benchmarks.md curves.sh "$out/table"
fi
