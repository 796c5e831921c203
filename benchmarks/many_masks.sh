#!/usr/bin/env bash
# One image with 800 masks: the memory that `detforge inspect` predicts, and what training on it takes.
#   benchmarks/many_masks.sh [CONFIG]     default configs/COCO-InstanceSegmentation/mask_rcnn_R_50_FPN_1x.yaml
# Needs the release build and scripts/setup.sh --tests.
set -euo pipefail
cd "$(dirname "$0")/.."
config=${1:-configs/COCO-InstanceSegmentation/mask_rcnn_R_50_FPN_1x.yaml}
detforge=build/release/bin/detforge
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
/usr/bin/python3 - "$out" <<'PY'
import json, math, random, sys
from PIL import Image, ImageDraw
out, height, width, objects = sys.argv[1], 800, 1344, 800
random.seed(1)
image = Image.effect_noise((width, height), 60).convert("RGB")
draw = ImageDraw.Draw(image)
annotations = []
for i in range(objects):
    radius = random.uniform(8, 60)
    x, y = random.uniform(radius, width - radius), random.uniform(radius, height - radius)
    corners = [(x + radius * math.cos(a * math.pi / 12) * random.uniform(0.7, 1), y + radius * math.sin(a * math.pi / 12)
                * random.uniform(0.7, 1)) for a in range(24)]
    draw.polygon(corners, fill=tuple(random.randrange(256) for _ in range(3)))
    xs, ys = zip(*corners)
    annotations.append({"id": i + 1, "image_id": 1, "category_id": 1 + i % 80, "iscrowd": 0, "area": 0.8 * math.pi * radius ** 2,
                        "bbox": [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)],
                        "segmentation": [[c for corner in corners for c in corner]]})
image.save(f"{out}/image.jpg", quality=90)
json.dump({"images": [{"id": 1, "file_name": "image.jpg", "height": height, "width": width}], "annotations": annotations,
           "categories": [{"id": k + 1, "name": f"class {k}"} for k in range(80)]}, open(f"{out}/train.json", "w"))
PY
predicted=$($detforge inspect "$config" --size 800x1344 --objects 800 2>"$out/inspect.log" |
  sed -n 's/.*peak of two steps *\([0-9]*\) MiB.*/\1/p')
$detforge train "$config" --output "$out/run" MODEL.WEIGHTS '""' DATASETS.TRAIN_JSON "[$out/train.json]" \
  DATASETS.TRAIN_IMAGES "[$out]" DATASETS.TEST '[]' DATASETS.TEST_JSON '[]' DATASETS.TEST_IMAGES '[]' \
  INPUT.MIN_SIZE_TRAIN '[800]' INPUT.MAX_SIZE_TRAIN 1344 SOLVER.IMS_PER_BATCH 1 SOLVER.MAX_ITER 4 SOLVER.STEPS '[]' \
  SOLVER.CHECKPOINT_PERIOD 1000 DATALOADER.NUM_WORKERS 1 DATALOADER.PREFETCH 1 SOLVER.BASE_LR 1e-6 >"$out/train.log" 2>&1 ||
  { tail -5 "$out/train.log" >&2; exit 1; }
measured=$(sed -n 's/.*max_mem: \([0-9]*\)M.*/\1/p' "$out/train.log" | tail -1)
echo "800 masks in 800x1344: inspect predicts $predicted MiB, training took $measured MiB, ratio $(
  awk "BEGIN { printf \"%.2f\", $measured / $predicted }")"
