#include "detforge/data/checks.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"

namespace detforge {
namespace {

enum class Subject : std::uint8_t { kImage, kCategory, kAnnotation };

struct CheckRule {
  CheckKind kind;
  std::string_view name;
  Subject subject;
  CheckAction action;        ///< by default
  std::string_view choices;  ///< letters of the allowed actions: f d e
  bool is_note;              ///< nothing is wrong or lost; reported so that it is known
  std::string_view meaning;  ///< what was met and what fix and drop do
  std::string_view advice;   ///< for the error message
};

using enum CheckKind;
using enum CheckAction;
using enum Subject;

constexpr std::array<CheckRule, kCheckKinds> kRules{{
    {kImageWithoutFileName, "image_without_file_name", kImage, kError, "de", false,
     "no \"file_name\"; drop leaves the image out", "give each image its file_name"},
    {kDuplicateImageId, "duplicate_image_id", kImage, kError, "de", false,
     "an image id is used twice; drop keeps the first", "give each image an id of its own"},
    {kMissingImageSize, "missing_image_size", kImage, kFix, "fe", true,
     "no height or width; fix reads them from the image file", "write height and width"},
    {kImageSizeMismatch, "image_size_mismatch", kImage, kError, "fe", false,
     "the decoded size is not the file's height and width; fix trusts the decoded one",
     "was the picture resized after it was annotated?"},
    {kImageSizeSwapped, "image_size_swapped", kImage, kError, "fe", false,
     "the sizes agree only when swapped; fix reads such a picture without EXIF turning",
     "annotate the picture as viewers show it, or read with apply_exif off, or set "
     "image_size_swapped to fix"},
    {kDuplicateCategoryId, "duplicate_category_id", kCategory, kError, "e", false,
     "a category id is used twice", "give each category an id of its own"},
    {kDuplicateCategoryName, "duplicate_category_name", kCategory, kError, "e", false,
     "two categories have one name", "merge them or rename one"},
    {kClassNotInFile, "class_not_in_file", kCategory, kFix, "fe", false,
     "a listed class is no category of the file; fix goes on without objects of it",
     "compare the class list with the file's category names"},
    {kClassWithoutInstances, "class_without_instances", kCategory, kFix, "fe", false,
     "no usable object of this class",
     "the model cannot learn it: check the file or the class list"},
    {kMissingAnnotationId, "missing_annotation_id", kAnnotation, kFix, "fde", true,
     "no \"id\"; fix gives the next free one", "write ids"},
    {kDuplicateAnnotationId, "duplicate_annotation_id", kAnnotation, kFix, "fde", false,
     "an annotation id is used twice; fix keeps all, drop keeps the first",
     "give each annotation its own id"},
    {kUnknownImageId, "unknown_image_id", kAnnotation, kDrop, "de", false,
     "the image_id belongs to no image", "are image_id and id swapped, or images missing?"},
    {kUnknownCategoryId, "unknown_category_id", kAnnotation, kError, "de", false,
     "the category_id belongs to no category",
     "add the category, or set unknown_category_id to drop"},
    {kClassFiltered, "class_filtered", kAnnotation, kDrop, "d", true,
     "the class is not in the list of classes", ""},
    {kBoxesLookLikeCorners, "boxes_look_like_corners", kAnnotation, kError, "fe", false,
     "most boxes leave the image as [x, y, width, height] but fit it as [x1, y1, x2, y2]; fix "
     "reads on as written",
     "convert the boxes to [x, y, width, height], or set boxes_look_like_corners to fix if they "
     "are right"},
    {kBoxMissing, "box_missing", kAnnotation, kDrop, "de", false,
     "no \"bbox\", and no mask to take it from", "write bbox: [x, y, width, height]"},
    {kBoxFromMask, "box_from_mask", kAnnotation, kFix, "fde", false,
     "no \"bbox\"; fix takes the box of the mask", "write bbox: [x, y, width, height]"},
    {kBoxMalformed, "box_malformed", kAnnotation, kError, "de", false,
     "bbox does not have four numbers", "write bbox: [x, y, width, height]"},
    {kBoxNotFinite, "box_not_finite", kAnnotation, kDrop, "de", false, "bbox holds NaN or infinity",
     "write finite numbers"},
    {kBoxNegativeSize, "box_negative_size", kAnnotation, kError, "de", false,
     "width or height is below 0",
     "bbox is [x, y, width, height], not two corners; or set box_negative_size to drop"},
    {kBoxZeroSize, "box_zero_size", kAnnotation, kDrop, "de", false, "width or height is 0",
     "correct the box"},
    {kBoxOutside, "box_outside", kAnnotation, kDrop, "de", false,
     "nothing of the box is inside the image", "is the annotation on the right image?"},
    {kBoxClipped, "box_clipped", kAnnotation, kFix, "fde", true,
     "the box crosses the border by more than 0.001 pixels; fix clips it for training, evaluation "
     "keeps the raw box",
     "correct the box"},
    {kBoxSubPixel, "box_sub_pixel", kAnnotation, kFix, "fde", true,
     "width or height is between 0 and 1 pixel; fix keeps it", "correct the box"},
    {kPolygonPartInvalid, "polygon_part_invalid", kAnnotation, kFix, "fde", false,
     "a polygon has fewer than 3 points, an odd count, no area, or a number that is not finite; "
     "fix drops this part",
     "correct the polygon"},
    {kMaskInvalid, "mask_invalid", kAnnotation, kFix, "fde", false,
     "nothing is left of the mask; fix keeps the object for its box", "correct the segmentation"},
    {kRleMalformed, "rle_malformed", kAnnotation, kError, "fde", false,
     "the RLE cannot be decoded; fix drops the mask, not the box",
     "write size: [height, width] and counts as pycocotools does"},
    {kRleSizeMismatch, "rle_size_mismatch", kAnnotation, kError, "fde", false,
     "the RLE's size is not the image's; fix drops the mask, not the box",
     "size is [height, width] of the image"},
    {kMissingSegmentation, "missing_segmentation", kAnnotation, kFix, "fde", true,
     "no \"segmentation\": the object serves for boxes only", "write segmentation"},
    {kMissingArea, "missing_area", kAnnotation, kFix, "fde", true,
     "no \"area\"; fix takes the mask's, else the box's", "write area"},
    {kMissingIscrowd, "missing_iscrowd", kAnnotation, kFix, "fde", true,
     "no \"iscrowd\"; fix takes 0", "write iscrowd"},
}};

constexpr bool rules_are_in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].kind != static_cast<CheckKind>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(rules_are_in_order(), "kRules is indexed by CheckKind");

const CheckRule& rule_of(CheckKind kind) {
  return kRules[static_cast<std::size_t>(kind)];
}

constexpr std::string_view kActionNames[] = {"fix", "drop", "error"};

std::string where_text(const CheckRule& rule, const CheckExample& example) {
  static constexpr std::string_view kSubjects[] = {"image", "category", "annotation"};
  std::string text = fmt::format("{} ", kSubjects[static_cast<std::size_t>(rule.subject)]);
  text += example.id ? fmt::format("{} (number {} in the file)", *example.id, example.index)
                     : fmt::format("number {} in the file", example.index);
  if (example.image_id) {
    text += fmt::format(", image {}", *example.image_id);
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replace, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::string_view check_name(CheckKind kind) {
  return rule_of(kind).name;
}
std::string_view check_name(CheckAction action) {
  return kActionNames[static_cast<std::size_t>(action)];
}

CheckPolicy::CheckPolicy() {
  for (const CheckRule& rule : kRules) {
    actions_[static_cast<std::size_t>(rule.kind)] = rule.action;
  }
}

void CheckPolicy::set(CheckKind kind, CheckAction action) {
  const CheckRule& rule = rule_of(kind);
  if (rule.choices.find(check_name(action)[0]) == std::string_view::npos) {
    std::string choices;
    for (const std::string_view name : kActionNames) {
      if (rule.choices.find(name[0]) != std::string_view::npos) {
        choices += (choices.empty() ? "" : ", ") + std::string(name);
      }
    }
    throw Error(fmt::format("the policy for {} cannot be {}", rule.name, check_name(action)),
                fmt::format("choose from: {}", choices), Error::Kind::kUsage)
        .at(__FILE__, __LINE__);
  }
  actions_[static_cast<std::size_t>(kind)] = action;
}

void CheckPolicy::set(std::string_view kind, std::string_view action) {
  const auto rule = std::find_if(kRules.begin(), kRules.end(),
                                 [&](const CheckRule& r) { return r.name == kind; });
  if (rule == kRules.end()) {
    std::vector<std::string> names;
    std::transform(kRules.begin(), kRules.end(), std::back_inserter(names),
                   [](const CheckRule& r) { return std::string(r.name); });
    const std::string near = nearest_name(kind, names);
    throw Error(fmt::format("no data check is called {}", kind),
                near.empty() ? fmt::format("choose from: {}", fmt::join(names, ", "))
                             : fmt::format("did you mean {}?", near),
                Error::Kind::kUsage)
        .at(__FILE__, __LINE__);
  }
  const auto* name = std::find(std::begin(kActionNames), std::end(kActionNames), action);
  if (name == std::end(kActionNames)) {
    throw Error(fmt::format("the policy for {} cannot be {}", kind, action),
                "choose from: fix, drop, error", Error::Kind::kUsage)
        .at(__FILE__, __LINE__);
  }
  set(rule->kind, static_cast<CheckAction>(name - std::begin(kActionNames)));
}

void CheckReport::set_totals(std::int64_t images, std::int64_t annotations, std::int64_t dropped) {
  images_ = images;
  annotations_ = annotations;
  dropped_ = dropped;
}

bool CheckReport::has_problems() const {
  return std::any_of(kRules.begin(), kRules.end(),
                     [&](const CheckRule& rule) { return !rule.is_note && count(rule.kind) > 0; });
}

void CheckReport::refuse() const {
  for (const CheckRule& rule : kRules) {
    if (count(rule.kind) == 0 || policy_.action(rule.kind) != kError) {
      continue;
    }
    const CheckExample& first = examples(rule.kind).front();
    std::string what =
        fmt::format("{}: {}", rule.name, first.detail.empty() ? rule.meaning : first.detail);
    if (count(rule.kind) > 1) {
      what += fmt::format(" (first of {})", count(rule.kind));
    }
    throw Error(what, std::string(rule.advice))
        .add_where(where_text(rule, first))
        .add_where(file_)
        .at(__FILE__, __LINE__);
  }
}

std::string CheckReport::dropped_sentence() const {
  if (dropped_ == 0) {
    return "";
  }
  std::vector<std::string> parts;
  for (const CheckRule& rule : kRules) {
    if (rule.subject == kAnnotation && count(rule.kind) > 0 && policy_.action(rule.kind) == kDrop) {
      parts.push_back(fmt::format("{} {}", count(rule.kind), rule.name));
    }
  }
  return fmt::format("Dropped {} of {} annotations: {}.", dropped_, annotations_,
                     fmt::join(parts, ", "));
}

std::string CheckReport::to_text() const {
  std::string text;
  for (const CheckRule& rule : kRules) {
    if (count(rule.kind) == 0) {
      continue;
    }
    const CheckExample& first = examples(rule.kind).front();
    text += fmt::format("\n  {:<24}{:>9}  {:<5}  {}{}{}", rule.name, count(rule.kind),
                        rule.is_note ? "note" : check_name(policy_.action(rule.kind)),
                        where_text(rule, first), first.detail.empty() ? "" : ": ", first.detail);
  }
  if (text.empty()) {
    return "";
  }
  const std::string sentence = dropped_sentence();
  return fmt::format(
      "Data checks of {} ({} images, {} annotations)\n  {:<24}{:>9}  {:<5}  first example{}{}{}",
      file_, images_, annotations_, "problem", "count", "done", text, sentence.empty() ? "" : "\n",
      sentence);
}

std::string CheckReport::to_json() const {
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const CheckRule& rule : kRules) {
    if (count(rule.kind) == 0) {
      continue;
    }
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const CheckExample& example : examples(rule.kind)) {
      nlohmann::ordered_json item = {{"index", example.index}};
      if (example.id) {
        item["id"] = *example.id;
      }
      if (example.image_id) {
        item["image_id"] = *example.image_id;
      }
      item["detail"] = example.detail;
      list.push_back(std::move(item));
    }
    problems.push_back({{"name", rule.name},
                        {"count", count(rule.kind)},
                        {"action", check_name(policy_.action(rule.kind))},
                        {"meaning", rule.meaning},
                        {"examples", std::move(list)}});
  }
  const nlohmann::ordered_json report = {{"file", file_},
                                         {"images", images_},
                                         {"annotations", annotations_},
                                         {"dropped", dropped_},
                                         {"problems", std::move(problems)}};
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string wanted = lower(name);
  std::size_t best = std::max<std::size_t>(2, wanted.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, lower(candidate));
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace detforge
