#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Ends on ctest's summary.
#   scripts/test.sh [CTEST ARGUMENTS]     e.g. scripts/test.sh -L unit, scripts/test.sh -R RoiAlign
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --tests
cmake --preset release -DDETFORGE_TESTS=ON -DDETFORGE_BENCHMARKS=ON
cmake --build --preset release
ctest --preset release --no-tests=error "$@"
