#!/usr/bin/env bash
# Trains a recipe of each model in FP32 and in O2 (f16, dynamic loss scale), with the same seed: how far their loss curves lie apart, and
# their APs, as tables and pictures.
#   benchmarks/precision_curves.sh [OPTIONS]
#     --data DIR                   folder of bccd and nuclei; default ../shared/data
#     --steps N                    default 300
#     --write                      put the tables into docs/precision.md and the pictures into docs/pictures/precision_*.svg
# Needs the release build; about 20 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
command="benchmarks/precision_curves.sh${*:+ $*}"
data=../shared/data steps=300 write=no
while [ $# -gt 0 ]; do
  case $1 in
    --data) data=${2:?} && shift ;;
    --steps) steps=${2:?} && shift ;;
    --write) write=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown option $1: see benchmarks/precision_curves.sh --help" >&2; exit 2 ;;
  esac
  shift
done
. benchmarks/measure.sh
check_curve_steps "$steps"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
train() { # RECIPE DATA NAME OVERRIDES...
  local recipe=$1 folder=$2 name=$3
  shift 3
  train_curve "$recipe $name" "configs/$recipe.yaml" "$data/$folder" "$out/$recipe/$name" "$steps" 1 "$@"
}
provenance "$command" >"$out/table"
for pair in "bccd bccd Faster R-CNN, BCCD" "nuclei nuclei Mask R-CNN, nuclei" "yolov3_bccd bccd YOLOv3, BCCD"; do
  read -r recipe folder title <<<"$pair"
  mkdir -p "$out/$recipe"
  train "$recipe" "$folder" FP32
  train "$recipe" "$folder" O2 AMP 1 OPT_LEVEL O2 LOSS_SCALE_VALUE dynamic
  {
    printf '\n%s (`configs/%s.yaml`):\n\n' "$title" "$recipe"
    "$python" benchmarks/tables.py curves "$out/$recipe" "$out/precision_$recipe.svg"
    printf '\n![losses in FP32 and in O2](pictures/precision_%s.svg)\n' "$recipe"
  } >>"$out/table"
done
cat "$out/table"
if [ $write = yes ]; then
  cp "$out"/precision_*.svg docs/pictures/
  "$python" benchmarks/tables.py write docs/precision.md precision_curves.sh "$out/table"
fi
