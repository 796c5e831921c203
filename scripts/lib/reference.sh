# Sourced by the scripts beside this folder that have the names and arguments of the Ascend project "Faster_Mask_RCNN_for_PyTorch".
# Each sets what its own defaults are and calls reference_main "$@":
#   network config ranks batch steps lr workers perf suffix [nodes]
#   nodes: one (a single machine), args (--nnodes ...), conf (--conf_path or --one_node_ip ..., 8 ranks a machine)

reference_usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
  cat <<TEXT

Arguments (form --key=value):
  --data_path=DIR      DIR/coco/{annotations,train2017,val2017} and DIR/R-101.pkl; required
  --batch_size=N       images a step, over all ranks (default $batch)
  --train_steps=N      steps (default $steps)
  --output=DIR         run folder (default runs/<case>)
  --hf32, --fp32       f32 instead of O2 with loss scale 64
TEXT
  case ${nodes:-one} in
    args) cat <<TEXT
  --nnodes=N --node_rank=R --master_addr=A --master_port=P --local_addr=A
                       this machine is number R of N; they meet at A:P (127.0.0.1:23333)
  --nproc=N            ranks of this machine (default 8)
TEXT
      ;;
    conf) cat <<TEXT
  --conf_path=DIR      folder of server_<ip>_<n>.info: their number is that of the machines, the first one's ip where they meet
  --one_node_ip=IP --linux_num=N
                       the same without files
  --server_index=R     number of this machine, from 0; else the one whose ip it has
  --fix_node_ip=IP     address of this machine
  --devicesnum=TEXT    one character for each rank of a machine (default 8 of them)
TEXT
      ;;
  esac
  cat <<'TEXT'
  KEY VALUE ...        overrides of the config, as detforge train takes them
--device_id, --test_path_dir, --conda_name, --precision_mode, --over_dump, --data_dump_flag, --data_dump_step and --profiling are
accepted and have no effect here, as most of them had none there.
TEXT
}

fail() { echo "$1" >&2; exit "${2:-1}"; }

# Machines from server_<ip>_<n>.info files.
read_conf_path() {
  local files
  [ -d "$conf_path" ] || fail "--conf_path $conf_path is no folder"
  mapfile -t files < <(find "$conf_path" -name 'server_*_*.info' -printf '%f\n' | sort -t_ -k3 -n)
  [ ${#files[@]} -gt 0 ] || fail "$conf_path holds no server_<ip>_<n>.info"
  linux_num=${#files[@]}
  local index=0 file ip
  for file in "${files[@]}"; do
    ip=${file#server_} && ip=${ip%_*}
    [ $index -gt 0 ] || one_node_ip=$ip
    if [ -z "$server_index" ] && hostname -I | tr ' ' '\n' | grep -Fxq "${fix_node_ip:-$ip}" && [ "${fix_node_ip:-$ip}" = "$ip" ]; then
      server_index=$index
    fi
    index=$((index + 1))
  done
}

reference_main() {
  local data_path="" output="" precision=(AMP 1 OPT_LEVEL O2 LOSS_SCALE_VALUE 64) flag="" overrides=() word
  local nnodes=1 node_rank=0 master_addr=127.0.0.1 master_port="" local_addr="" nproc=$ranks
  local conf_path="" one_node_ip="" linux_num="" fix_node_ip="" devicesnum="" server_index=""
  for word in "$@"; do
    case $word in
      -h | --help) reference_usage; exit 0 ;;
      --hf32 | --fp32) [ -z "$flag" ] || fail "--hf32 and --fp32 do not go together" 2; flag=$word precision=() ;;
      --data_path=*) data_path=${word#*=} ;;
      --batch_size=*) batch=${word#*=} ;;
      --train_steps=*) steps=${word#*=} ;;
      --output=*) output=${word#*=} ;;
      --nnodes=*) nnodes=${word#*=} ;;
      --node_rank=*) node_rank=${word#*=} ;;
      --nproc=*) nproc=${word#*=} ;;
      --master_addr=*) master_addr=${word#*=} ;;
      --master_port=*) master_port=${word#*=} ;;
      --local_addr=*) local_addr=${word#*=} ;;
      --conf_path=*) conf_path=${word#*=} ;;
      --one_node_ip=*) one_node_ip=${word#*=} ;;
      --linux_num=*) linux_num=${word#*=} ;;
      --fix_node_ip=*) fix_node_ip=${word#*=} ;;
      --devicesnum=*) devicesnum=${word#*=} ;;
      --server_index=*) server_index=${word#*=} ;;
      --device_id=* | --test_path_dir=* | --conda_name=* | --precision_mode=* | --over_dump=* | --data_dump_flag=* | --data_dump_step=* | \
        --profiling=*) echo "${word%%=*} has no effect here" >&2 ;;
      --*) fail "unknown argument $word: see $0 --help" 2 ;;
      *) overrides+=("$word") ;;
    esac
  done
  [ -n "$data_path" ] || fail 'para "data_path" must be confing: --data_path=DIR'

  if [ "${nodes:-one}" = conf ]; then
    [ -z "$conf_path" ] || read_conf_path
    [ -z "$devicesnum" ] || nproc=${#devicesnum}
    nnodes=${linux_num:-$((ranks / 8))} master_addr=${one_node_ip:?give --conf_path or --one_node_ip} master_port=${master_port:-29688}
    node_rank=${server_index:?give --server_index: no ip of the machines is this one}
    local_addr=$fix_node_ip
    [ -n "$devicesnum" ] || nproc=$((ranks / nnodes))
  elif [ "${nodes:-one}" = args ]; then
    master_port=${master_port:-23333}
  fi
  local world=$((nproc * nnodes)) launch=(--nproc "$nproc")
  [ "$nnodes" -eq 1 ] || launch+=(--nnodes "$nnodes" --node-rank "$node_rank" --master-addr "$master_addr" --master-port "$master_port")
  [ -z "$local_addr" ] || launch+=(--local-addr "$local_addr")

  local case_name="${network}_bs${batch}_${world}p_${suffix}"
  output=${output:-runs/$case_name} output=${output%/}
  local weights=(MODEL.WEIGHTS "$data_path/R-101.pkl")
  case " ${overrides[*]} " in *" MODEL.WEIGHTS "*) weights=() ;; esac
  [ ${#weights[@]} -eq 0 ] || [ -f "${weights[1]}" ] || fail "there is no ${weights[1]}: put it there, or add MODEL.WEIGHTS FILE"
  local evaluation=()
  [ "$perf" = no ] || evaluation=(DATASETS.TEST "[]")
  local log=$output/train_$case_name.log start
  [ "$node_rank" -eq 0 ] || log=$output.node$node_rank.log  # a folder that the machines share has one log
  start=$(date +%s)
  # A later run of the same name starts anew, as there; the earlier one is kept beside it.
  if [ "$node_rank" -eq 0 ] && [ -e "$output/checkpoints" ]; then
    mv "$output" "$output.before-$(date -r "$output" +%Y%m%d-%H%M%S)"
  fi
  mkdir -p "$output"
  "${DETFORGE_BIN:-build/release/bin/detforge}" train "$config" --data "$data_path/coco" --output "$output" "${launch[@]}" ${flag:+$flag} \
    "${precision[@]}" SEED 1234 MODEL.RPN.NMS_THRESH 0.8 MODEL.ROI_BOX_HEAD.POOLER_SAMPLING_RATIO 2 \
    MODEL.ROI_MASK_HEAD.POOLER_SAMPLING_RATIO 2 SOLVER.IMS_PER_BATCH "$batch" SOLVER.MAX_ITER "$steps" SOLVER.BASE_LR "$lr" \
    DATALOADER.NUM_WORKERS "$workers" "${weights[@]}" "${evaluation[@]}" "${overrides[@]}" 2>&1 | tee "$log" || exit 1
  [ "$node_rank" -eq 0 ] || exit 0
  report "$log" "$output" "$case_name" "$world" $(($(date +%s) - start))
}

report() { # LOG RUN CASE RANKS SECONDS
  local fps accuracy loss time
  fps=$(sed -n 's/.*FPS = \([0-9.]*\).*/\1/p' "$1" | awk '{ s += $1 } END { print NR ? s / NR : "n/a" }')
  accuracy=$(sed -n '/Average Precision/{s/.*= *//p;q}' "$1")
  loss=$(sed -n 's/.*total_loss: \([0-9.e+-]*\).*/\1/p' "$1" | tail -1)
  time=$(awk -v f="$fps" -v b="$batch" 'BEGIN { print (f + 0 > 0 ? b * 1000 / f : "n/a") }')
  sed -n 's/.*total_loss: \([0-9.e+-]*\).*/\1/p' "$1" >"$2/train_$3_loss.txt"
  {
    echo "Network = $network"
    echo "RankSize = $4"
    echo "BatchSize = $batch"
    echo "DeviceType = $(uname -m)"
    echo "CaseName = $3"
    echo "ActualFPS = $fps"
    echo "TrainingTime = $time"
    [ -z "$accuracy" ] || echo "TrainAccuracy = $accuracy"
    echo "ActualLoss = $loss"
    echo "E2ETrainingTime = $5"
  } >"$2/$3.log"
  echo "------------------ Final result ------------------"
  echo "Final Performance images/sec : $fps"
  [ -z "$accuracy" ] || echo "Final Train Accuracy : $accuracy"
  echo "E2E Training Duration sec : $5"
}
