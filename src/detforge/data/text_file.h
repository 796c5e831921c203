#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace detforge {

/// Text that people and tools of any system wrote: image lists, labels, class names.

/// What a text file starts or ends with for technical reasons, taken off: the byte order mark of
/// UTF-8. Throws Error (without a place) for UTF-16 and for data that is no text at all.
std::string_view plain_text(std::string_view bytes);

/// The lines, ended by \n, \r\n or \r, without white space (and NUL) around them; a last empty line
/// is none. Views of `text`.
std::vector<std::string_view> lines_of(std::string_view text);

/// The words of a line, between spaces and tabs. Views of `line`.
std::vector<std::string_view> words_of(std::string_view line);

/// Without white space at both ends.
std::string_view trimmed(std::string_view text);

/// Small letters for capital ones, ASCII only.
std::string lower_case(std::string_view text);

/// The whole word as a number, or nothing: 1, +0.5, 1e-3, .5, nan, inf. Never a decimal comma, in
/// any locale.
std::optional<double> parse_number(std::string_view word);

/// The first characters of a text for a message, at most 40, without control characters.
std::string excerpt(std::string_view text);

}  // namespace detforge
