#!/usr/bin/env bash
# Two "machines" of one run: network namespaces with addresses of their own, joined by a virtual cable, in which the machine's name means
# 127.0.0.1. Needs iproute2 and util-linux, and the right to make namespaces (77 if there is none).
#   tests/distributed/two_nodes.sh FOLDER train    train_performance_multinodes.sh on both: must end well
#   tests/distributed/two_nodes.sh FOLDER cut      the cable is cut in mid-run: both sides must end and say whom they miss
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=$1 mode=$2
export DETFORGE_BIN=${DETFORGE_BIN:-$here/build/release/bin/detforge}
if [ "${TWO_NODES_INSIDE:-}" = "" ]; then
  unshare --user --map-root-user --net --mount true 2>/dev/null || exit 77
  TWO_NODES_INSIDE=1 exec unshare --user --map-root-user --net --mount --kill-child --fork "$0" "$@"
fi
cd "$folder"
printf '127.0.0.1 localhost %s\n' "$(hostname)" >hosts
mount --bind hosts /etc/hosts
unshare --net sleep 600 & other=$!
trap 'kill $other 2>/dev/null || true' EXIT
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link add cable0 type veth peer name cable1 netns $other
ip address add 10.77.0.1/24 dev cable0
ip link set cable0 up
ip link set lo up
on_other() { nsenter --target $other --net "$@"; }
on_other ip address add 10.77.0.2/24 dev cable1
on_other ip link set cable1 up
on_other ip link set lo up

"$DETFORGE_BIN" make-shapes data/coco --train 16 --val 4 --size 64x64 >/dev/null
(cd data/coco && mv train train2017 && mv val val2017 && cd annotations &&
  mv instances_train.json instances_train2017.json && mv instances_val.json instances_val2017.json)
steps=12
[ "$mode" = train ] || steps=100000
start() { # NODE: in the background of the namespace that it is called in
  "$here/scripts/train_performance_multinodes.sh" --data_path="$folder/data" --nnodes=2 --node_rank="$1" --master_addr=10.77.0.1 \
    --master_port=23333 --nproc=2 --batch_size=4 --train_steps=$steps --output="$folder/run" \
    DISTRIBUTED.TIMEOUT_S 5 DATALOADER.NUM_WORKERS 0 MODEL.WEIGHTS "" MODEL.RESNETS.NORM GN MODEL.BACKBONE.FREEZE_AT 0 \
    MODEL.RESNETS.DEPTH 18 MODEL.RESNETS.RES2_OUT_CHANNELS 64 MODEL.RESNETS.STEM_OUT_CHANNELS 32 MODEL.FPN.OUT_CHANNELS 32 MODEL.FPN.NORM GN \
    MODEL.ROI_BOX_HEAD.FC_DIM 32 MODEL.ROI_MASK_HEAD.CONV_DIM 32 MODEL.ROI_HEADS.NUM_CLASSES 4 MODEL.ROI_HEADS.BATCH_SIZE_PER_IMAGE 32 \
    INPUT.MIN_SIZE_TRAIN "[64]" MODEL.PIXEL_STD "[57.0,57.0,57.0]"
}
export -f start
export here folder steps
start 0 >node0.log 2>&1 & node0=$!
on_other bash -c 'start 1' >node1.log 2>&1 & node1=$!
if [ "$mode" = cut ]; then
  for _ in $(seq 900); do
    ! grep -q 'iter: ' node0.log || break
    sleep 0.2
  done
  date +%s >cut_at
  ip link set cable0 down
fi
status0=0 status1=0
wait $node0 || status0=$?
wait $node1 || status1=$?
date +%s >ended_at
echo "node 0: $status0, node 1: $status1"
[ "$mode" = cut ] || exit $((status0 + status1))
[ $status0 -ne 0 ] && [ $status1 -ne 0 ]
