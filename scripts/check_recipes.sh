#!/usr/bin/env bash
# Trains every shipped recipe in O2 with f16 (dynamic loss scale) on small drawings: every loss must be finite, and nearly every step an
# update. Backbones with fixed norms start from random weights whose residual branches are scaled as trained ones are: with norms that do
# nothing, 33 random blocks double the activations until they are infinite in f16.
#   scripts/check_recipes.sh [--steps 200] [--size 128] [--half fp16|bf16] [RECIPE...]
# Needs the release build and python3-torch; about 20 minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=200 size=128 half=fp16 recipes=()
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=${2:?} && shift ;;
    --size) size=${2:?} && shift ;;
    --half) half=${2:?} && shift ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "unknown option $1: see scripts/check_recipes.sh --help" >&2; exit 2 ;;
    *) recipes+=("$1") ;;
  esac
  shift
done
detforge=${DETFORGE_BIN:-build/release/bin/detforge}
[ ${#recipes[@]} -gt 0 ] || mapfile -t recipes < <(find configs -name '*.yaml' ! -name 'Base-*' | sort)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$detforge" make-shapes "$out/shapes" --train 64 --val 2 --size "${size}x${size}" >/dev/null
train() { # RECIPE FOLDER STEPS OVERRIDES...: keeps what it says in FOLDER.log
  local recipe=$1 folder=$2 steps=$3
  shift 3
  "$detforge" train "$recipe" --output "$folder" \
    DATASETS.TRAIN_JSON "[$out/shapes/annotations/instances_train.json]" DATASETS.TRAIN_IMAGES "[$out/shapes/train]" \
    DATASETS.TEST "[]" DATASETS.TEST_JSON "[]" DATASETS.TEST_IMAGES "[]" DATALOADER.NUM_WORKERS 1 DATALOADER.PREFETCH 2 \
    INPUT.MIN_SIZE_TRAIN "[$size]" INPUT.MAX_SIZE_TRAIN "$size" MODEL.ROI_HEADS.NUM_CLASSES 4 MODEL.YOLO.NUM_CLASSES 4 DATASETS.CLASSES "[]" \
    SOLVER.IMS_PER_BATCH 2 SOLVER.ACCUMULATION_STEPS 1 SOLVER.MAX_ITER "$steps" TEST.EVAL_PERIOD 0 SEED 1 \
    "$@" >"$folder.log" 2>&1 || { tail -30 "$folder.log" >&2; return 1; }
}
# The first weights of a network whose backbone has fixed norms, with the last norm of each residual block scaled down.
settle_norms() { # CHECKPOINT WEIGHTS
  /usr/bin/python3 - "$1" "$2" <<'PYTHON'
import re, sys, torch
model = torch.load(sys.argv[1], map_location="cpu")["model"]
for name, tensor in model.items():
    if re.search(r"(res\d\.\d+\.conv3\.norm|\.res\d+\.conv2\.bn)\.weight$", name):
        tensor.mul_(0.2)
torch.save({"model": model}, sys.argv[2])
PYTHON
}
status=0
printf '%-56s %6s %8s %12s %12s\n' recipe steps skipped "first loss" "last loss"
for recipe in "${recipes[@]}"; do
  name=$(basename "$recipe" .yaml)
  start=(MODEL.WEIGHTS "")
  if grep 'NORM: "\?FrozenBN\|NORM_EVAL: true' <("$detforge" config "$recipe" 2>/dev/null) >/dev/null; then
    start+=(MODEL.PIXEL_STD "[57.375, 57.12, 58.395]")
    train "$recipe" "$out/$name.start" 1 "${start[@]}"
    settle_norms "$out/$name.start/checkpoints/last.pth" "$out/$name.pth"
    start+=(MODEL.WEIGHTS "$out/$name.pth")
  fi
  if ! train "$recipe" "$out/$name" "$steps" AMP 1 OPT_LEVEL O2 HALF_TYPE "$half" LOSS_SCALE_VALUE dynamic "${start[@]}"; then
    status=1
    continue
  fi
  /usr/bin/python3 - "$recipe" "$steps" "$out/$name/metrics.jsonl" <<'PYTHON' || status=1
import json, math, sys
recipe, steps, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rows = [row for row in map(json.loads, open(path)) if "total_loss" in row]
skipped = rows[-1].get("skipped_steps", 0)
print(f"{recipe:<56} {rows[-1]['iteration'] + 1:>6} {skipped:>8} {rows[0]['total_loss']:>12.4g} {rows[-1]['total_loss']:>12.4g}", flush=True)
finite = all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
if not finite or rows[-1]["iteration"] + 1 != steps or skipped > max(16, steps // 10):
    sys.exit(f"{recipe}: not every loss is finite, or too few steps were updates")
PYTHON
  rm -rf "$out/$name" "$out/$name.start"
done
exit $status
