#include "detforge/structures/rle.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// One signed value; moves `at` behind it.
std::int64_t decode_value(std::string_view text, std::size_t& at) {
  constexpr int kMaxShift =
      35;  // runs fit in 32 bits, differences in 33: no valid value needs an eighth group
  std::int64_t value = 0;
  for (int shift = 0; at < text.size() && shift <= kMaxShift; shift += 5) {
    const int character = static_cast<unsigned char>(text[at]);
    DETFORGE_CHECK(character >= 48 && character < 112,
                   fmt::format("byte {} of the RLE text is {}, outside 48..111", at, character),
                   "give counts as pycocotools' encode() writes them");
    ++at;
    const int group = character - 48;
    value |= static_cast<std::int64_t>(group & 0x1F) << shift;
    if ((group & 0x20) == 0) {
      return (group & 0x10) != 0 ? value - (std::int64_t{1} << (shift + 5)) : value;
    }
  }
  throw Error(fmt::format("the RLE text has a value that does not end before byte {}", at),
              "the counts text was cut or damaged; write it anew")
      .at(__FILE__, __LINE__);
}

}  // namespace

std::vector<std::uint32_t> decode_rle_counts(std::string_view text) {
  std::vector<std::uint32_t> counts;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t run = decode_value(text, at);
    if (counts.size() > 2) {
      run += counts[counts.size() - 2];
    }
    DETFORGE_CHECK(run >= 0 && run <= UINT32_MAX,
                   fmt::format("run {} of the RLE is {}", counts.size(), run),
                   "the counts text was cut or damaged; write it anew");
    counts.push_back(static_cast<std::uint32_t>(run));
  }
  return counts;
}

void check_rle(std::span<const std::uint32_t> counts, ImageSize size) {
  DETFORGE_CHECK(
      size.height > 0 && size.width > 0 && size.height <= INT32_MAX && size.width <= INT32_MAX,
      fmt::format("RLE has size {} x {}", size.height, size.width),
      "give \"size\": [height, width] of the image");
  std::uint64_t sum = 0;
  for (const std::uint32_t run : counts) {
    sum += run;
  }
  const auto pixels = static_cast<std::uint64_t>(size.height * size.width);
  DETFORGE_CHECK(sum == pixels,
                 fmt::format("the runs of the RLE sum to {}, its size {} x {} has {} pixels", sum,
                             size.height, size.width, pixels),
                 "size is [height, width]; were the counts cut, or made for another size?");
}

std::int64_t rle_area(std::span<const std::uint32_t> counts) {
  std::int64_t area = 0;
  for (std::size_t i = 1; i < counts.size(); i += 2) {
    area += counts[i];
  }
  return area;
}

Box rle_box(std::span<const std::uint32_t> counts, std::int64_t height) {
  std::int64_t x1 = INT64_MAX, y1 = INT64_MAX, x2 = 0, y2 = 0, at = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t begin = at;
    at += counts[i];
    if (i % 2 == 0 || counts[i] == 0) {
      continue;
    }
    const std::int64_t first_column = begin / height, last_column = (at - 1) / height;
    const bool one_column = first_column == last_column;
    x1 = std::min(x1, first_column);
    x2 = std::max(x2, last_column + 1);
    y1 = std::min(y1, one_column ? begin % height : 0);
    y2 = std::max(y2, one_column ? (at - 1) % height + 1 : height);
  }
  if (x2 == 0) {
    return {};
  }
  return {static_cast<double>(x1), static_cast<double>(y1), static_cast<double>(x2),
          static_cast<double>(y2)};
}

double polygon_area(std::span<const double> xy) {
  double twice = 0;
  const std::size_t points = xy.size() / 2;
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t j = (i + 1) % points;
    // Relative to the first point, so that collinear points give exactly or nearly 0 far from the
    // origin too.
    twice += (xy[2 * i] - xy[0]) * (xy[2 * j + 1] - xy[1]) -
             (xy[2 * j] - xy[0]) * (xy[2 * i + 1] - xy[1]);
  }
  return std::abs(twice) / 2;
}

Box polygon_box(std::span<const double> xy) {
  Box box{xy[0], xy[1], xy[0], xy[1]};
  for (std::size_t i = 2; i + 1 < xy.size(); i += 2) {
    box.x1 = std::min(box.x1, xy[i]);
    box.x2 = std::max(box.x2, xy[i]);
    box.y1 = std::min(box.y1, xy[i + 1]);
    box.y2 = std::max(box.y2, xy[i + 1]);
  }
  return box;
}

}  // namespace detforge
