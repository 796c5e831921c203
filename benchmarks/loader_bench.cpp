// The loader's work on one thread, without LibTorch: see benchmarks/peers/pillow_loader.py for the
// same in Pillow.
//   loader_bench FOLDER SECONDS            prints images per second of CPU time
//   loader_bench FOLDER SECONDS --phases   prints milliseconds per image of each phase
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"
#include "detforge/data/flip.h"
#include "detforge/data/image_io.h"
#include "detforge/data/normalise.h"
#include "detforge/data/resize.h"

namespace {

constexpr std::array<float, 3> kMean = {103.53F, 116.28F, 123.675F};
constexpr std::array<float, 3> kStd = {57.375F, 57.12F, 58.395F};

std::int64_t padded(std::int64_t side) {
  return (side + 31) / 32 * 32;
}

/// Seconds spent in each phase so far.
struct Phases {
  double decode = 0, resize = 0, flip = 0, normalise = 0;
};

void load(const std::string& path, std::vector<float>& planes, Phases& phases) {
  detforge::Timer timer;
  detforge::Image image = detforge::read_image(path);
  phases.decode += timer.restart();
  image = detforge::resize_bilinear(image, detforge::shortest_edge_size(image.size(), 800, 1333));
  phases.resize += timer.restart();
  detforge::flip_horizontal_(image);
  phases.flip += timer.restart();
  const std::int64_t height = padded(image.height), width = padded(image.width);
  planes.resize(static_cast<std::size_t>(3 * height * width));
  detforge::normalise_into(image, planes.data(), height, width, kMean, kStd);
  phases.normalise += timer.restart();
}

int run(const std::string& folder, double seconds, bool print_phases) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path().string());
  }
  DETFORGE_CHECK(!paths.empty(), "no images in " + folder, "give a folder of JPEG files");
  std::sort(paths.begin(), paths.end());
  std::vector<float> planes;
  Phases phases;
  for (const auto& path : paths) {
    load(path, planes, phases);  // warm-up: file cache and allocator
  }
  phases = {};
  std::size_t count = 0;
  const std::clock_t cpu_start =
      std::clock();  // CPU time: other programs on the machine do not count
  const detforge::Timer timer;
  for (; timer.elapsed_s() < seconds; ++count) {
    load(paths[count % paths.size()], planes, phases);
  }
  const auto images = static_cast<double>(count);
  if (print_phases) {
    const double ms = 1000 / images;
    std::printf("decode %.3f ms, resize %.3f ms, flip %.3f ms, normalise %.3f ms\n",
                phases.decode * ms, phases.resize * ms, phases.flip * ms, phases.normalise * ms);
  }
  const double cpu_s = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  std::printf("%.2f\n", images / cpu_s);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: loader_bench FOLDER SECONDS [--phases]\n");
    return 2;
  }
  try {
    return run(argv[1], std::stod(argv[2]), argc > 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
