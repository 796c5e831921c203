// Masks of one huge picture: pasted, encoded as COCO's RLE text and written to a file.
//   paste_bench [DETECTIONS] [HEIGHT] [WIDTH]       default: 300 on 9,000 x 12,000 pixels
// Prints seconds for each part, the size of what comes out and the peak memory of the process. The
// masks are blobs with a hole over boxes of all sizes up to the whole image.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/allocator.h"
#include "detforge/core/files.h"
#include "detforge/core/rng.h"
#include "detforge/core/timer.h"
#include "detforge/ops/paste_masks.h"
#include "detforge/structures/rle.h"

namespace {

using namespace detforge;

constexpr std::int64_t kSide = 28;

Tensor make_blobs(std::int64_t count, Rng& rng) {
  Tensor masks = torch::empty({count, kSide, kSide}, torch::kFloat);
  float* out = masks.data_ptr<float>();
  for (std::int64_t d = 0; d < count; ++d) {
    const double wobble = rng.uniform(0.05, 0.3), phase = rng.uniform(0, 6.28);
    for (std::int64_t i = 0; i < kSide * kSide; ++i) {
      const double x = static_cast<double>(i % kSide) / kSide * 2 - 1;
      const double y = static_cast<double>(i / kSide) / kSide * 2 - 1;
      const double edge = 0.8 + wobble * std::sin(5 * std::atan2(y, x) + phase);
      const double radius = std::hypot(x, y);
      const double inside = 10 * std::min(edge - radius, radius - 0.2);
      *out++ = static_cast<float>(1 / (1 + std::exp(-inside)));
    }
  }
  return masks;
}

Tensor make_boxes(std::int64_t count, ImageSize size, Rng& rng) {
  Tensor boxes = torch::empty({count, 4}, torch::kFloat);
  float* out = boxes.data_ptr<float>();
  for (std::int64_t d = 0; d < count; ++d, out += 4) {
    const double width = rng.uniform(10, static_cast<double>(size.width));
    const double height = rng.uniform(10, static_cast<double>(size.height));
    out[0] = static_cast<float>(rng.uniform(0, static_cast<double>(size.width) - width));
    out[1] = static_cast<float>(rng.uniform(0, static_cast<double>(size.height) - height));
    out[2] = out[0] + static_cast<float>(width);
    out[3] = out[1] + static_cast<float>(height);
  }
  return boxes;
}

std::string to_json(const std::vector<Rle>& masks) {
  std::string text = "[";
  for (const Rle& mask : masks) {
    std::string counts;
    for (const char c : encode_rle_counts(mask.counts)) {
      counts += c == '\\' ? std::string("\\\\") : std::string(1, c);
    }
    text += fmt::format("{}{{\"size\": [{}, {}], \"counts\": \"{}\"}}",
                        text.size() > 1 ? ",\n" : "", mask.size.height, mask.size.width, counts);
  }
  return text + "]\n";
}

void run(std::int64_t count, ImageSize size) {
  Rng rng(1, RngPurpose::kTest);
  const Tensor masks = make_blobs(count, rng), boxes = make_boxes(count, size, rng);
  const double before_mb = static_cast<double>(peak_rss_bytes()) / 1e6;
  Timer timer;
  const std::vector<Rle> pasted = paste_masks(masks, boxes, size);
  const double paste_s = timer.restart();
  const std::string text = to_json(pasted);
  const double encode_s = timer.restart();
  const auto path = std::filesystem::temp_directory_path() /
                    ("detforge-paste-bench-" + std::to_string(getpid()) + ".json");
  files::write_atomic(path, text);
  const double write_s = timer.restart();
  std::filesystem::remove(path);
  std::size_t runs = 0;
  for (const Rle& mask : pasted) {
    runs += mask.counts.size();
  }
  fmt::print(
      "{} masks on {} x {}: paste {:.3f} s, encode {:.3f} s, write {:.3f} s\n"
      "{} runs, {:.1f} MB of JSON, peak memory {:.0f} MB, of which {:.0f} MB before pasting\n",
      count, size.height, size.width, paste_s, encode_s, write_s, runs,
      static_cast<double>(text.size()) / 1e6, static_cast<double>(peak_rss_bytes()) / 1e6,
      before_mb);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t fallback) {
    return argc > i ? std::int64_t{std::atoll(argv[i])} : fallback;
  };
  run(argument(1, 300), {argument(2, 9000), argument(3, 12000)});
  return 0;
}
