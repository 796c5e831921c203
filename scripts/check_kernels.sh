#!/usr/bin/env bash
# Runs the convolution kernels beside forbidden pages (tests/ops/conv_guard_test.cpp) with address and undefined-behaviour sanitizers,
# and under valgrind where that is installed (it does not know AVX-512, so there only the AVX2 build runs). A minute of building.
#   scripts/check_kernels.sh
set -euo pipefail
cd "$(dirname "$0")/.."
build() { # OUTPUT FLAGS...: the kernels and their test, without LibTorch
  local out=$1 objects=() source isa
  shift
  mkdir -p "$out"
  for source in src/detforge/ops/cpu/{conv_*,pixel_rows,winograd*}.cpp tests/ops/conv_guard_test.cpp; do
    isa=()
    case $source in
      *_avx2.cpp) isa=(-O3 -mavx2 -mfma -mf16c) ;;
      *_avx512.cpp) isa=(-O3 -mavx512f -Wno-maybe-uninitialized -Wno-uninitialized) ;;
    esac
    g++ -std=c++20 -g1 -O2 -fopenmp -Isrc "$@" "${isa[@]}" -c "$source" -o "$out/$(basename "$source").o"
    objects+=("$out/$(basename "$source").o")
  done
  g++ -fopenmp "$@" "${objects[@]}" -lgtest -lgtest_main -lfmt -o "$out/guard"
}
build build/check_kernels/sanitized -fsanitize=address,undefined -fno-sanitize-recover=all
OMP_NUM_THREADS=3 build/check_kernels/sanitized/guard --gtest_brief=1
if command -v valgrind >/dev/null; then
  build build/check_kernels/plain
  OMP_NUM_THREADS=1 valgrind --quiet --error-exitcode=9 build/check_kernels/plain/guard --gtest_brief=1
else
  echo "valgrind is not installed: only the sanitizers ran"
fi
