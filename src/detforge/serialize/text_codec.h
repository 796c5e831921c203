#pragma once

#include <string>
#include <string_view>

/// The text encodings that pickles use. std::string is UTF-8 everywhere else.
namespace detforge::pickle {

/// Each byte as the character of that number.
std::string latin1_to_utf8(std::string_view bytes);
/// The reverse. Throws Error if the text is no UTF-8 or has a character above 255.
std::string utf8_to_latin1(std::string_view text);
bool is_utf8(std::string_view text);
/// The content of a protocol 0 string, with its quotes: '...' with the escapes of Python 2's
/// repr().
std::string unescape_string(std::string_view quoted);
/// The content of a protocol 0 unicode string: latin-1 with \uXXXX and \UXXXXXXXX; as UTF-8.
std::string unescape_unicode(std::string_view text);

}  // namespace detforge::pickle
