#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Ends on ctest's summary.
#   scripts/test.sh [CTEST ARGUMENTS]     e.g. scripts/test.sh -L unit, scripts/test.sh -R RoiAlign
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --tests
cmake --preset release -DDETFORGE_TESTS=ON -DDETFORGE_BENCHMARKS=ON
cmake --build --preset release
# The short fuzzing run: a minute of building the first time, then 30 s. A longer one: scripts/fuzz.sh 600.
# ctest's fuzz.* entries run the same targets without libFuzzer.
[ $# -gt 0 ] || scripts/fuzz.sh 10
# The convolution kernels under sanitizers: a minute of building.
[ $# -gt 0 ] || scripts/check_kernels.sh
for folder in "${DETFORGE_TEST_DATA:-../shared/data}" "${DETFORGE_PARITY_DIR:-../shared/parity}"; do
  [ -d "$folder" ] || echo "note: no $folder: the tests that need it are skipped, which ctest counts as passed" >&2
done
ctest --preset release --no-tests=error "$@"
