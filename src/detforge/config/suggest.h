#pragma once

#include <string>
#include <string_view>

namespace detforge::config {

/// Advice on a key that does not exist: the nearest valid key by edit distance over the whole name
/// and over its last part, so that a right name in the wrong section leads to the right section.
std::string suggest(std::string_view unknown_key);

}  // namespace detforge::config
