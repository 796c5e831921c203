#!/usr/bin/env bash
# What several ranks cost and give on this machine: communication hidden behind the backward pass, images/s by number of ranks, the price
# of DETERMINISTIC, and loss curves of 2 ranks with and without SOLVER.GRAD_COMPRESSION.
#   benchmarks/distributed.sh [OPTIONS]
#     --steps N                    of the curves; default 300
#     --iters N                    measured steps; default 20
#     --write                      put the tables into docs/distributed.md and the picture into docs/pictures/compression.svg
# Needs the release build; about 15 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
command="benchmarks/distributed.sh${*:+ $*}"
steps=300 iters=20 write=no
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=${2:?} && shift ;;
    --iters) iters=${2:?} && shift ;;
    --write) write=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown option $1: see benchmarks/distributed.sh --help" >&2; exit 2 ;;
  esac
  shift
done
. benchmarks/measure.sh
check_curve_steps "$steps"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
recipe=configs/shapes.yaml
# A box head that makes 62 MB of gradients.
big=(MODEL.ROI_BOX_HEAD.FC_DIM 1024)
measure() { # NAME RANKS OVERRIDES...: one line of JSON in NAME.json
  local name=$1 ranks=$2
  shift 2
  local launch=(--nproc "$ranks")
  [ "$ranks" -gt 1 ] || launch=()
  "$detforge" bench comm $recipe --iters "$iters" --json "$out/$name.json" "${launch[@]}" "${big[@]}" "$@" >/dev/null 2>"$out/log" ||
    { cat "$out/log" >&2; exit 1; }
  echo "$name done" >&2
}
row() { # NAME LABEL
  "$python" - "$out/$1.json" "$2" <<'PYTHON'
import json, sys
steps = json.load(open(sys.argv[1]))["steps"]
hidden = f"{100 * steps['overlap']:.0f} %" if steps["bytes"] else ""
print(f"| {sys.argv[2]} | {steps['images_per_s']:.3f} | {steps['seconds_per_step']:.3f} | {steps['communication_s']:.3f} | "
      f"{steps['exposed_s']:.3f} | {hidden} | {steps['bytes'] / 1e6:.1f} |")
PYTHON
}
{
  provenance "$command"
  printf '\n`detforge bench comm %s %s`, an image of 160x240 a rank and step; medians, means over ranks:\n\n' "$recipe" "${big[*]}"
  echo "| ranks | images/s | s a step | summing gradients, s | of it waited for | hidden | MB sent a rank |"
  echo "| --- | --- | --- | --- | --- | --- | --- |"
} >"$out/table"
for ranks in 1 2 4 8; do
  measure "ranks$ranks" $ranks
  row "ranks$ranks" "$ranks" >>"$out/table"
done
for compression in fp16 bf16 powersgd; do
  measure $compression 2 SOLVER.GRAD_COMPRESSION $compression
  row $compression "2, GRAD_COMPRESSION $compression" >>"$out/table"
done
for ranks in 1 2; do
  measure "same$ranks" $ranks DETERMINISTIC true --batch 4
  measure "any$ranks" $ranks --batch 4
  row "any$ranks" "$ranks, 4 images each" >>"$out/table"
  row "same$ranks" "$ranks, 4 images each, DETERMINISTIC" >>"$out/table"
done

"$detforge" make-shapes "$out/data/shapes" >/dev/null
mkdir -p "$out/curves"
for compression in none fp16 powersgd; do
  train_curve $compression $recipe "$out" "$out/curves/$compression" "$steps" 1 SOLVER.GRAD_COMPRESSION $compression --nproc 2
done
train_curve "none, 1 rank" $recipe "$out" "$out/curves/none, 1 rank" "$steps" 1  # differs by rounding alone
{
  printf '\nTwo ranks, %s steps of `%s`, the same seed; one rank is the same run but for rounding, so its distance is the noise:\n\n' "$steps" "$recipe"
  "$python" benchmarks/tables.py curves "$out/curves" "$out/compression.svg"
  printf '\n![losses by compression](pictures/compression.svg)\n'
} >>"$out/table"
cat "$out/table"
if [ $write = yes ]; then
  cp "$out/compression.svg" docs/pictures/
  "$python" benchmarks/tables.py write docs/distributed.md distributed.sh "$out/table"
fi
