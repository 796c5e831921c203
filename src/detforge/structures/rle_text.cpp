// The text form of run lengths: decode_rle_counts() and encode_rle_counts().
#include <cstdint>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/structures/rle.h"

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
  append_rle_counts(text, counts);
  return counts;
}

void append_rle_counts(std::string_view text, std::vector<std::uint32_t>& counts) {
  const std::size_t begin = counts.size();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t index = counts.size() - begin;
    std::int64_t run = decode_value(text, at);
    if (index > 2) {
      run += counts[counts.size() - 2];
    }
    DETFORGE_CHECK(run >= 0 && run <= UINT32_MAX,
                   fmt::format("run {} of the RLE is {}", index, run),
                   "the counts text was cut or damaged; write it anew");
    counts.push_back(static_cast<std::uint32_t>(run));
  }
}

std::string encode_rle_counts(std::span<const std::uint32_t> counts) {
  std::string text;
  text.reserve(2 * counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::int64_t value = counts[i];
    if (i > 2) {
      value -= counts[i - 2];
    }
    bool more = true;
    while (more) {
      const auto group = static_cast<int>(value & 0x1F);
      value >>= 5;
      more = value != ((group & 0x10) != 0 ? -1 : 0);
      text.push_back(static_cast<char>(48 + group + (more ? 0x20 : 0)));
    }
  }
  return text;
}

}  // namespace detforge
