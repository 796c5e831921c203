#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace detforge {

/// Levenshtein's distance: the fewest characters to insert, delete or replace to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// For error messages about an unknown name: the candidate nearest to it by edit distance without
/// regard to case (of several, the first), or "" if none is near (distance above a third of the
/// name's length, at least 2).
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace detforge
