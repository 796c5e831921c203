# Sourced by the scripts beside it, which have gone to the repository's root.
detforge=${DETFORGE_BIN:-build/release/bin/detforge}
python=/usr/bin/python3
if [ ! -x "$detforge" ]; then
  echo "there is no $detforge: build it (cmake --build --preset release), or set DETFORGE_BIN" >&2
  exit 2
fi
# OpenBLAS does not know every CPU. DetForge then chooses its kernels; the peer gets the same ones.
kernels=$("$detforge" doctor 2>/dev/null | sed -n 's/^BLAS .*NO_AFFINITY \([A-Za-z]*\) .*/\1/p')
[ -z "$kernels" ] || export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$kernels}

# The recipe of a model: config_of faster|mask|yolo
config_of() {
  case $1 in
    faster) echo configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml ;;
    mask) echo configs/COCO-InstanceSegmentation/mask_rcnn_R_50_FPN_1x.yaml ;;
    yolo) echo configs/COCO-YOLOv3/yolov3_d53_416_273e.yaml ;;
    *) echo "the models are faster, mask and yolo, not $1" >&2; return 2 ;;
  esac
}

# Objects per made-up image. 128 with masks: all are sampled as foreground, so 128 masks are trained, as real data does.
objects_of() { if [ "$1" = mask ]; then echo 128; else echo 8; fi; }

# What makes a recipe's network and its number of proposals the peer's.
overrides_of() {
  [ "$1" = yolo ] || echo MODEL.RESNETS.STRIDE_IN_1X1 false MODEL.RPN.PRE_NMS_TOPK_TEST 2000
}

# Adds one line of figures to a file: bench_ours MODEL TASK SIZE BATCH ITERS THREADS FILE
bench_ours() {
  local line log
  line=$(mktemp) log=$(mktemp)
  if ! "$detforge" bench "$2" "$(config_of "$1")" --size "$3" --batch "$4" --iters "$5" --threads "$6" \
    --objects "$(objects_of "$1")" --json "$line" $(overrides_of "$1") >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  cat "$line" >>"$7"
  rm -f "$line" "$log"
}

# The same of the peer: torchvision, for YOLOv3 plain PyTorch.
bench_peer() {
  local peer=(benchmarks/peers/torchvision_rcnn.py --model "$1")
  if [ "$1" = yolo ]; then
    peer=(benchmarks/peers/yolov3.py)
  fi
  "$python" -W ignore "${peer[@]}" --task "$2" --size "$3" --batch "$4" --iters "$5" --threads "$6" \
    --objects "$(objects_of "$1")" >>"$7"
}

# Losses are logged every 20 steps: check_curve_steps STEPS
check_curve_steps() {
  if [ "$1" -lt 100 ]; then
    echo "with fewer than 100 steps, of which every 20th is logged, there is no curve" >&2
    return 2
  fi
}

# Trains one curve of a table; says why only if it fails: train_curve NAME RECIPE DATA OUTPUT STEPS SEED OVERRIDES...
train_curve() {
  local name=$1 recipe=$2 data=$3 output=$4 steps=$5 seed=$6 log
  shift 6
  log=$(mktemp)
  if ! "$detforge" train "$recipe" --data "$data" --output "$output" SOLVER.MAX_ITER "$steps" SEED "$seed" TEST.EVAL_PERIOD 0 "$@" \
    >"$log" 2>&1; then
    tail -20 "$log" >&2
    return 1
  fi
  rm -f "$log"
  echo "$name done" >&2
}

# Says when, where and by what command a table was measured.
provenance() {
  local commit
  commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
  echo "$(date +%F), $(lscpu | sed -n 's/^Model name: *//p' | head -1), $(nproc) cores, commit $commit: \`$1\`."
}
