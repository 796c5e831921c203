#!/usr/bin/env bash
# Installs the Debian packages that DetForge needs, and only those that are missing.
#   scripts/setup.sh            what building and running needs
#   scripts/setup.sh --tests    also what the tests and benchmarks compare with (Python's torch, torchvision, Pillow)
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config
  libtorch-dev libgloo-dev libopenblas0-openmp libopenblas-dev
  libjpeg-dev libopencv-dev
  libsimdjson-dev nlohmann-json3-dev libpugixml-dev libyaml-cpp-dev libcli11-dev libspdlog-dev libfmt-dev
  libzip-dev zlib1g-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy python3-pil python3-torch python3-torchvision
  iproute2  # two network namespaces as machines: tests/distributed/two_nodes.sh
  clang libclang-rt-dev libomp-dev)  # libFuzzer: scripts/fuzz.sh

packages=("${build_packages[@]}")
case "${1:-}" in
  "") ;;
  --tests) packages+=("${test_packages[@]}") ;;
  -h|--help) sed -n '2,4p' "$0" | cut -c3-; exit 0 ;;
  *) echo "setup.sh: unknown option $1 (try --help)" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are there"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/tmp/detforge-setup.log 2>&1 \
  || { tail -20 /tmp/detforge-setup.log >&2; echo "setup: apt-get failed, see /tmp/detforge-setup.log" >&2; exit 1; }
echo "setup: done"
