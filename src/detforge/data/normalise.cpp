#include "detforge/data/normalise.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::size_t kByteValues = 256;
/// Only 256 different inputs exist: their results, one table per channel, computed once per image.
using Table = std::array<float, kByteValues>;

Table make_table(float mean, float std) {
  Table table{};
  for (std::size_t value = 0; value < kByteValues; ++value) {
    table[value] = (static_cast<float>(value) - mean) / std;
  }
  return table;
}

}  // namespace

void normalise_into(const Image& image,
                    float* chw,
                    std::int64_t padded_h,
                    std::int64_t padded_w,
                    const std::array<float, 3>& mean,
                    const std::array<float, 3>& std) {
  DETFORGE_CHECK(image.height <= padded_h && image.width <= padded_w,
                 fmt::format("image of {}x{} does not fit into a batch of {}x{}", image.height,
                             image.width, padded_h, padded_w),
                 "this is a bug: the batch size must be the largest image's");
  DETFORGE_CHECK(std[0] != 0 && std[1] != 0 && std[2] != 0, "a value of PIXEL_STD is 0",
                 "use 1 to leave a channel unscaled");
  const std::array<Table, 3> tables = {make_table(mean[0], std[0]), make_table(mean[1], std[1]),
                                       make_table(mean[2], std[2])};
  const std::int64_t plane = padded_h * padded_w;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* in = image.row(y);
    float* blue = chw + y * padded_w;
    float* green = blue + plane;
    float* red = green + plane;
    for (std::int64_t x = 0; x < image.width; ++x) {
      blue[x] = tables[0][in[3 * x]];
      green[x] = tables[1][in[3 * x + 1]];
      red[x] = tables[2][in[3 * x + 2]];
    }
    for (float* row : {blue, green, red}) {
      std::fill(row + image.width, row + padded_w, 0.0F);
    }
  }
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    std::fill(chw + channel * plane + image.height * padded_w, chw + (channel + 1) * plane, 0.0F);
  }
}

}  // namespace detforge
