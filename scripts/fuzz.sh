#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz with clang and libFuzzer, and runs each, two at a time.
#   scripts/fuzz.sh [SECONDS [TARGET...]]      e.g. scripts/fuzz.sh 600 unpickler; default: 60 each, all
# Inputs that reached new code are kept in build/fuzz/corpus/TARGET and are where the next run starts.
# A finding fails the script; its input is in build/fuzz/findings, and this runs it alone:
#   build/fuzz/bin/TARGET_fuzz FILE
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-60}" in
  -h|--help) sed -n '2,6p' "$0" | cut -c3-; exit 0 ;;
  *[!0-9]*) echo "fuzz.sh: SECONDS is '$1' (try --help)" >&2; exit 2 ;;
esac
export seconds=${1:-60}
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$file")
    targets+=("${name%_fuzz.cpp}")
  done
fi
mkdir -p build/fuzz/findings build/fuzz/logs
cmake --preset fuzz > build/fuzz/logs/configure.log || { cat build/fuzz/logs/configure.log >&2; exit 1; }
cmake --build --preset fuzz -- --quiet

run_target() {
  local name=$1 log=build/fuzz/logs/$1.log options=()
  mkdir -p "build/fuzz/corpus/$name"
  [ -f "tests/fuzz/dictionaries/$name" ] && options+=("-dict=tests/fuzz/dictionaries/$name")
  # Torch's and OpenCV's own start-up allocations are theirs: leaks are looked for in tests instead.
  if ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 "build/fuzz/bin/${name}_fuzz" -max_total_time="$seconds" \
      -rss_limit_mb=2048 -timeout=60 -max_len=4096 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/findings/$name-" "${options[@]}" \
      "build/fuzz/corpus/$name" "tests/fuzz/seeds/$name" > "$log" 2>&1; then
    local runs coverage
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -1)
    echo "fuzz: $name: $runs runs in $seconds s, $coverage: no finding"
  else
    tail -40 "$log" >&2
    echo "fuzz: $name: FINDING, see build/fuzz/findings and $log" >&2
    return 1
  fi
}
export -f run_target
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'run_target {}' \
  || { echo "fuzz: there are findings" >&2; exit 1; }
