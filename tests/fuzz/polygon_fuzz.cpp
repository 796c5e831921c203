// Polygons of any numbers (NaN, infinite, huge, subnormal) on images of any small size: pixels stay
// inside, and the work is bounded.

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

/// Mostly coordinates near the image, in quarters of pixels; sometimes any double.
double take_coordinate(ByteSource& source) {
  switch (source.take<std::uint8_t>() % 8) {
    case 0:
      return std::bit_cast<double>(source.take<std::uint64_t>());
    case 1:
      return std::ldexp(source.take<std::int8_t>(), source.take<std::int8_t>());
    default:
      return source.take<std::int16_t>() / 16.0;
  }
}

std::vector<std::vector<double>> take_parts(ByteSource& source) {
  std::vector<std::vector<double>> parts(1);
  while (source.left() > 0) {
    if (source.rest()[0] == 'P') {  // the next part
      source.take<std::uint8_t>();
      parts.emplace_back();
    }
    parts.back().push_back(take_coordinate(source));
  }
  return parts;
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  ByteSource source(data, size);
  const ImageSize image{source.take_in(-1, 600), source.take_in(-1, 600)};
  const std::vector<std::vector<double>> parts = take_parts(source);
  for (const std::vector<double>& part : parts) {
    accepts([&] {
      if (part.size() >= 2) {
        const double area = polygon_area(part);
        require(!(area < 0), "an area is not negative");
        polygon_box(part);
      }
    });
  }
  accepts([&] {
    const Rle mask = polygons_mask(parts, image);
    require(accepts([&] { check_rle(mask.counts, image); }), "the pixels are inside the image");
    const Rle part = polygon_mask(parts[0], image);
    const std::vector<RleView> both = {mask, part};
    require(rle_area(merge_masks(both).counts) == rle_area(mask.counts),
            "an object holds each of its parts");
  });
  return 0;
}
