// RLE masks from untrusted text: whatever the text says, no pixel outside the mask is touched, and
// what is accepted means the same in every form (text, runs, bitmap).

#include <algorithm>
#include <vector>

#include "detforge/structures/rle.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

constexpr std::int64_t kMostPixels = 1 << 12;  // bitmaps are made up to here

/// A second mask of the same size, merged with the first, against pixel by pixel.
void check_merge(const Rle& a, const std::vector<std::uint8_t>& a_pixels, bool intersect) {
  std::vector<std::uint8_t> b_pixels(a_pixels.rbegin(), a_pixels.rend());
  const Rle b = encode_mask(b_pixels, a.size);
  const std::vector<RleView> both = {a, b};
  std::vector<std::uint8_t> merged(a_pixels.size());
  decode_mask(merge_masks(both, intersect), merged);
  for (std::size_t i = 0; i < merged.size(); ++i) {
    b_pixels[i] = intersect ? a_pixels[i] & b_pixels[i] : a_pixels[i] | b_pixels[i];
  }
  require(merged == b_pixels, "merging masks merges their pixels");
}

void check_pixels(const Rle& mask) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(mask.size.height * mask.size.width), 7);
  decode_mask(mask, pixels);
  require(std::count(pixels.begin(), pixels.end(), 1) == rle_area(mask.counts),
          "the area is the number of pixels set");
  require(rle_area(encode_mask(pixels, mask.size).counts) == rle_area(mask.counts),
          "encoding the pixels again keeps the area");
  std::vector<std::uint8_t> again(pixels.size());
  decode_mask(encode_mask(pixels, mask.size), again);
  require(again == pixels, "decode(encode(pixels)) = pixels");
  check_merge(mask, pixels, false);
  check_merge(mask, pixels, true);
}

void check_mask(const Rle& mask) {
  check_rle(mask.counts, mask.size);
  const Box box = rle_box(mask.counts, mask.size.height);
  require(box.x1 >= 0 && box.y1 >= 0 && box.x2 <= static_cast<double>(mask.size.width) &&
              box.y2 <= static_cast<double>(mask.size.height),
          "the box is inside the mask");
  require(static_cast<double>(rle_area(mask.counts)) <= box.area(), "the pixels are in the box");
  if (mask.size.height * mask.size.width <= kMostPixels) {
    check_pixels(mask);
  }
}

/// Runs of all kinds of size, made to sum to the size where `close` is odd.
Rle mask_of_numbers(ByteSource source) {
  Rle mask;
  mask.size = {source.take_in(-1, 300), source.take_in(-1, 300)};
  const bool close = source.take<std::uint8_t>() % 2 == 1;
  std::int64_t left = mask.size.height * mask.size.width;
  while (source.left() > 0) {
    const auto run = source.take<std::uint8_t>();
    mask.counts.push_back(run < 250 ? run : source.take<std::uint32_t>());
    left -= mask.counts.back();
  }
  if (close && left > 0) {
    mask.counts.push_back(static_cast<std::uint32_t>(left));
  }
  return mask;
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  ByteSource source(data, size);
  const ImageSize mask_size{source.take_in(0, 400), source.take_in(0, 400)};
  accepts([&] {
    const Rle mask{mask_size, decode_rle_counts(source.rest())};
    require(decode_rle_counts(encode_rle_counts(mask.counts)) == mask.counts,
            "decode(encode(runs)) = runs");
    check_mask(mask);
  });
  accepts([&] { check_mask(mask_of_numbers({data, size})); });
  return 0;
}
