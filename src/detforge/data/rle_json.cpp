#include "detforge/data/rle_json.h"

#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/json_values.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

namespace od = simdjson::ondemand;

ImageSize read_rle_size(od::value& value) {
  DETFORGE_CHECK(value.type() == od::json_type::array,
                 fmt::format("the RLE's size is {}", token_of(value)), "");
  std::int64_t sides[2] = {};
  std::size_t count = 0;
  for (auto element : value.get_array()) {
    od::value number = element.value();
    const std::int64_t side = read_size(number, "a side of the RLE");
    if (count < 2) {
      sides[count] = side;
    }
    ++count;
  }
  DETFORGE_CHECK(count == 2, fmt::format("the RLE's size has {} numbers", count), "");
  return {sides[0], sides[1]};
}

/// The text of a JSON string. simdjson would keep each string that it unescapes as long as the
/// document: half a million masks are 100 MB. The backslash is the only character of an RLE that
/// must be escaped; other escapes (\u003c for "<") are rare.
std::string text_of(od::value& value) {
  std::string_view raw = value.raw_json_token();
  const std::size_t closing_quote = raw.rfind('"');
  raw = raw.substr(1, closing_quote - 1);
  std::string text;
  text.reserve(raw.size());
  for (;;) {
    const std::size_t escape = raw.find('\\');
    text += raw.substr(0, escape);
    if (escape == std::string_view::npos) {
      return text;
    }
    if (raw.substr(escape, 2) != "\\\\") {
      return std::string(std::string_view(value.get_string()));
    }
    text += '\\';
    raw.remove_prefix(escape + 2);
  }
}

void append_run_list(od::array list, std::vector<std::uint32_t>& runs) {
  const std::size_t begin = runs.size();
  for (auto element : list) {
    od::value number = element.value();
    const double run = read_number(number, "counts");
    DETFORGE_CHECK(run >= 0 && run <= UINT32_MAX && run == std::floor(run),
                   fmt::format("run {} of the RLE is {}", runs.size() - begin, run), "");
    runs.push_back(static_cast<std::uint32_t>(run));
  }
}

}  // namespace

ImageSize append_rle_json(od::object object, std::vector<std::uint32_t>& runs) {
  const std::size_t begin = runs.size();
  ImageSize size;
  bool has_size = false;
  for (auto field : object) {
    const od::raw_json_string key = field.key();
    od::value value = field.value();
    if (key == "size") {
      size = read_rle_size(value);
      has_size = true;
    } else if (key == "counts" && value.type() == od::json_type::array) {
      append_run_list(value.get_array(), runs);
    } else if (key == "counts") {
      DETFORGE_CHECK(value.type() == od::json_type::string,
                     fmt::format("the RLE's counts are {}", token_of(value)), "");
      append_rle_counts(text_of(value), runs);
    }
  }
  DETFORGE_CHECK(has_size, "the RLE has no \"size\"", "give \"size\": [height, width]");
  check_rle(std::span(runs).subspan(begin), size);
  return size;
}

}  // namespace detforge
