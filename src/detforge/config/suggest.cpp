#include "detforge/config/suggest.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/config/schema.h"
#include "detforge/core/nearest_name.h"

namespace detforge::config {
namespace {

constexpr std::size_t kMostShown = 3;
constexpr const char* kListAll = "`detforge config --describe` lists all keys";

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

std::string without_spaces(std::string_view name) {
  std::string text(name);
  std::erase(text, ' ');
  return text;
}

/// Sections of Detectron2 that belong to models which DetForge does not build.
bool is_foreign(std::string_view key) {
  constexpr std::array kForeign = {
      "MODEL.RETINANET.",         "MODEL.SEM_SEG_HEAD.",         "MODEL.PANOPTIC_FPN.",
      "MODEL.ROI_KEYPOINT_HEAD.", "MODEL.ROI_BOX_CASCADE_HEAD.", "GLOBAL."};
  return std::any_of(kForeign.begin(), kForeign.end(),
                     [&](const char* prefix) { return key.starts_with(prefix); });
}

struct Candidate {
  double distance;
  std::string_view name;
};

/// 0: the same but for case and spaces. Up to 1: the right name in another section. Else edits to
/// make; the small share of `whole` prefers the nearer section among equal last parts.
double distance(std::string_view unknown, std::string_view known) {
  const auto whole = static_cast<double>(edit_distance(unknown, known));
  const auto last = static_cast<double>(edit_distance(last_part(unknown), last_part(known)));
  return std::min(whole, last + 0.5 + 0.01 * whole);
}

}  // namespace

std::string suggest(std::string_view unknown_key) {
  const std::string unknown = key_name(without_spaces(unknown_key));  // in upper case
  if (is_foreign(unknown)) {
    return "it belongs to a model of Detectron2 that DetForge does not build: remove it";
  }
  std::vector<Candidate> candidates;
  for (const Key& key : schema()) {
    candidates.push_back({distance(unknown, key.name), key.name});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.distance < b.distance; });
  const double best = candidates.front().distance;
  if (best > std::max(3.0, 0.4 * static_cast<double>(last_part(unknown).size()))) {
    return kListAll;
  }
  std::vector<std::string_view> shown = {candidates.front().name};
  for (std::size_t i = 1; i < candidates.size() && shown.size() < kMostShown; ++i) {
    if (last_part(candidates[i].name) == last_part(shown.front()) &&
        candidates[i].distance < best + 0.5 && best > 0) {
      shown.push_back(candidates[i].name);
    }
  }
  return fmt::format("did you mean {}?", fmt::join(shown, " or "));
}

}  // namespace detforge::config
