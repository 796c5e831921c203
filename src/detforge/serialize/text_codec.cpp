#include "detforge/serialize/text_codec.h"

#include <cstdint>
#include <optional>

#include "detforge/serialize/pickle_object.h"

namespace detforge::pickle {
namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

/// The character at `position`, which moves behind it; nothing if the bytes there are no UTF-8.
std::optional<std::uint32_t> next_character(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(position);
  const std::size_t length = first < 0x80         ? 1
                             : first >> 5 == 0x6  ? 2
                             : first >> 4 == 0xE  ? 3
                             : first >> 3 == 0x1E ? 4
                                                  : 0;
  if (length == 0 || length > text.size() - position) {
    return std::nullopt;
  }
  std::uint32_t code = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(position + i) >> 6 != 0x2) {
      return std::nullopt;
    }
    code = code << 6 | (byte(position + i) & 0x3F);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF) {
    return std::nullopt;
  }
  position += length;
  return code;
}

/// `digits` hexadecimal digits at `position`, which moves behind them.
std::uint32_t take_hex(std::string_view text, std::size_t& position, std::size_t digits) {
  std::uint32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i, ++position) {
    const char c = position < text.size() ? text[position] : '?';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      fail_malformed("a string with a broken escape");
    }
    code = code << 4 | static_cast<std::uint32_t>(digit);
  }
  return code;
}

}  // namespace

std::string latin1_to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) {
    append_utf8(text, static_cast<unsigned char>(byte));
  }
  return text;
}

std::string utf8_to_latin1(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const auto code = next_character(text, position);
    if (!code || *code > 0xFF) {
      fail_malformed("bytes kept as text hold a character above 255");
    }
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(*code)));
  }
  return bytes;
}

bool is_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    if (!next_character(text, position)) {
      return false;
    }
  }
  return true;
}

std::string unescape_string(std::string_view quoted) {
  if (quoted.size() < 2 || quoted.front() != quoted.back() ||
      (quoted.front() != '\'' && quoted.front() != '"')) {
    fail_malformed("a string without quotes");
  }
  quoted = quoted.substr(1, quoted.size() - 2);
  std::string bytes;
  for (std::size_t position = 0; position < quoted.size();) {
    char c = quoted[position++];
    if (c == '\\') {
      if (position == quoted.size()) {
        fail_malformed("a string that ends in a backslash");
      }
      c = quoted[position++];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      if (c == 'x') {
        c = static_cast<char>(static_cast<unsigned char>(take_hex(quoted, position, 2)));
      }
    }
    bytes.push_back(c);
  }
  return bytes;
}

std::string unescape_unicode(std::string_view text) {
  std::string out;
  for (std::size_t position = 0; position < text.size();) {
    const char c = text[position++];
    const char kind = c == '\\' && position < text.size() ? text[position] : '\0';
    if (kind != 'u' && kind != 'U') {
      append_utf8(out, static_cast<unsigned char>(c));
      continue;
    }
    ++position;
    const std::uint32_t code = take_hex(text, position, kind == 'u' ? 4 : 8);
    if (code > 0x10FFFF) {
      fail_malformed("a character above U+10FFFF");
    }
    append_utf8(out, code);
  }
  return out;
}

}  // namespace detforge::pickle
