#include "detforge/data/text_file.h"

#include <algorithm>
#include <charconv>

#include "detforge/core/error.h"

namespace detforge {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v' || c == '\0';
}

bool is_utf16(std::string_view bytes) {
  return bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
}

}  // namespace

std::string_view plain_text(std::string_view bytes) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  DETFORGE_CHECK(!is_utf16(bytes), "the file is UTF-16 text, as Windows tools write it",
                 "save it as UTF-8, or: iconv -f UTF-16 -t UTF-8 OLD > NEW");
  if (bytes.starts_with(kByteOrderMark)) {
    bytes.remove_prefix(kByteOrderMark.size());
  }
  const auto zeros = std::count(bytes.begin(), bytes.end(), '\0');
  DETFORGE_CHECK(zeros * 8 <= static_cast<std::ptrdiff_t>(bytes.size()),
                 "the file is no text: it is full of zero bytes",
                 "if it is UTF-16, save it as UTF-8; else fetch it again");
  return bytes;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end);
    if (!text.empty()) {
      text.remove_prefix(text.starts_with("\r\n") ? 2 : 1);
    }
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = trimmed(line)).empty()) {
    const auto* end = std::find_if(line.begin(), line.end(), is_space);
    words.push_back(line.substr(0, static_cast<std::size_t>(end - line.begin())));
    line.remove_prefix(words.back().size());
  }
  return words;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

std::optional<double> parse_number(std::string_view word) {
  if (word.starts_with('+') && !word.starts_with("+-")) {
    word.remove_prefix(1);
  }
  double number = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
  // A number beyond double's range leaves `number` alone; it is no number that can be used.
  const bool whole = result.ec == std::errc() && result.ptr == word.data() + word.size();
  return whole && !word.empty() ? std::optional(number) : std::nullopt;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string out(text.substr(0, kMost));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace detforge
