#include "detforge/data/checks.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/data/check_rules.h"

namespace detforge {
namespace {

std::string where_text(const CheckRule& rule, const CheckExample& example) {
  if (!example.place.empty()) {
    return example.place;
  }
  static constexpr std::string_view kSubjects[] = {"image", "category", "annotation"};
  std::string text = fmt::format("{} ", kSubjects[static_cast<std::size_t>(rule.subject)]);
  text += example.id ? fmt::format("{} (number {} in the file)", *example.id, example.index)
                     : fmt::format("number {} in the file", example.index);
  if (example.image_id) {
    text += fmt::format(", image {}", *example.image_id);
  }
  return text;
}

}  // namespace

CheckExample CheckReport::with_place(CheckKind kind, CheckExample example) const {
  if (example.place.empty() && place_of_ && rule_of(kind).subject == CheckSubject::kAnnotation) {
    example.place = place_of_(example);
  }
  return example;
}

void CheckReport::set_totals(std::int64_t images, std::int64_t annotations, std::int64_t dropped) {
  images_ = images;
  annotations_ = annotations;
  dropped_ = dropped;
}

bool CheckReport::has_problems() const {
  return std::any_of(check_rules().begin(), check_rules().end(),
                     [&](const CheckRule& rule) { return !rule.is_note && count(rule.kind) > 0; });
}

void CheckReport::refuse() const {
  for (const CheckRule& rule : check_rules()) {
    if (count(rule.kind) == 0 || policy_.action(rule.kind) != CheckAction::kError) {
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
  for (const CheckRule& rule : check_rules()) {
    if (rule.subject == CheckSubject::kAnnotation && count(rule.kind) > 0 &&
        policy_.action(rule.kind) == CheckAction::kDrop) {
      parts.push_back(fmt::format("{} {}", count(rule.kind), rule.name));
    }
  }
  return fmt::format("Dropped {} of {} annotations: {}.", dropped_, annotations_,
                     fmt::join(parts, ", "));
}

std::string CheckReport::to_text() const {
  std::string text;
  for (const CheckRule& rule : check_rules()) {
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
  for (const CheckRule& rule : check_rules()) {
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
      if (!example.place.empty()) {
        item["place"] = example.place;
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

}  // namespace detforge
