#include "detforge/models/darknet/cfg_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// The line without white space and without its comment.
std::string content_of(std::string_view line) {
  std::string text(line.substr(0, line.find_first_of("#;")));
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  return text;
}

class SectionReader {
 public:
  void add_line(std::string_view line) {
    ++line_;
    const std::string text = content_of(line);
    if (text.empty()) {
      return;
    }
    check(std::none_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }),
          "the line holds bytes that are no text", "give a Darknet .cfg file");
    if (text.front() == '[') {
      start_section(text);
    } else {
      add_entry(text);
    }
  }

  std::vector<CfgSection> take() {
    check(!sections_.empty(), "the file has no [section]", "give a Darknet .cfg file");
    return std::move(sections_);
  }

 private:
  void check(bool good, const std::string& what, const std::string& fix) const {
    if (!good) {
      throw Error(what, fix).at(__FILE__, __LINE__).add_where(fmt::format("line {}", line_));
    }
  }

  void start_section(const std::string& text) {
    check(text.size() > 2 && text.back() == ']', fmt::format("'{}' is no [section]", text),
          "write the kind of layer between [ and ]");
    sections_.push_back({text.substr(1, text.size() - 2), line_, {}});
  }

  void add_entry(const std::string& text) {
    const std::size_t equals = text.find('=');
    check(equals != std::string::npos && equals > 0,
          fmt::format("'{}' is neither [section] nor key=value", text), "correct the line");
    check(!sections_.empty(), fmt::format("'{}' stands before the first [section]", text),
          "begin the file with [net]");
    std::vector<CfgEntry>& entries = sections_.back().entries;
    const std::string key = text.substr(0, equals);
    const auto other = std::find_if(entries.begin(), entries.end(),
                                    [&](const CfgEntry& entry) { return entry.key == key; });
    if (other != entries.end()) {
      check(false, fmt::format("{} is there twice, in line {} too", key, other->line),
            "remove one of them (Darknet takes the first)");
    }
    entries.push_back({key, text.substr(equals + 1), line_});
  }

  std::int64_t line_ = 0;
  std::vector<CfgSection> sections_;
};

}  // namespace

std::vector<CfgSection> read_cfg_sections(std::string_view text) {
  SectionReader reader;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.add_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.take();
}

}  // namespace detforge
