#include "detforge/data/yolo_labels.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "detforge/data/text_file.h"

namespace detforge {
namespace {

constexpr std::size_t kBoxWords = 5, kLeastPolygonWords = 7;

std::string not_a_number(std::string_view word, std::string_view line) {
  std::string text = fmt::format("\"{}\" is not a number", excerpt(word));
  if (word.find(',') != std::string_view::npos) {
    text +=
        words_of(line).size() == 1 ? "; the row has commas for spaces" : "; it has a decimal comma";
  }
  return text;
}

void fail(YoloRow& row, YoloRow::Fault fault, std::string detail) {
  row.fault = fault;
  row.detail = std::move(detail);
}

std::string columns_text(std::size_t count) {
  std::string text = fmt::format("{} column{}", count, count == 1 ? "" : "s");
  if (count == 6) {
    text += ": 5 and a score, as predictions have?";
  }
  return text;
}

YoloRow parse_row(std::string_view line, std::int64_t number) {
  YoloRow row{.line = number};
  const std::vector<std::string_view> words = words_of(line);
  std::vector<double> values;
  values.reserve(words.size());
  for (const std::string_view word : words) {
    const std::optional<double> value = parse_number(word);
    if (!value) {
      fail(row, YoloRow::Fault::kMalformed, not_a_number(word, line));
      return row;
    }
    values.push_back(*value);
  }
  const bool is_polygon = words.size() >= kLeastPolygonWords && words.size() % 2 == 1;
  if (words.size() != kBoxWords && !is_polygon) {
    fail(row, YoloRow::Fault::kColumns, columns_text(words.size()));
    return row;
  }
  row.label = values[0];
  if (std::floor(row.label) != row.label || !std::isfinite(row.label)) {
    fail(row, YoloRow::Fault::kMalformed,
         fmt::format("the class is {}, not a whole number", excerpt(words[0])));
  } else if (is_polygon) {
    row.polygon.assign(values.begin() + 1, values.end());
  } else {
    std::copy(values.begin() + 1, values.end(), row.box_cxcywh.begin());
  }
  return row;
}

}  // namespace

std::vector<YoloRow> parse_yolo_labels(std::string_view bytes) {
  std::vector<YoloRow> rows;
  std::int64_t number = 0;
  for (const std::string_view line : lines_of(plain_text(bytes))) {
    ++number;
    if (!line.empty()) {
      rows.push_back(parse_row(line, number));
    }
  }
  return rows;
}

}  // namespace detforge
