// The part of checks.h about names and policies.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/nearest_name.h"
#include "detforge/data/check_rules.h"

namespace detforge {
namespace {

constexpr std::string_view kActionNames[] = {"fix", "drop", "error"};

}  // namespace

std::string_view check_name(CheckKind kind) {
  return rule_of(kind).name;
}
std::string_view check_name(CheckAction action) {
  return kActionNames[static_cast<std::size_t>(action)];
}

CheckPolicy::CheckPolicy() {
  for (const CheckRule& rule : check_rules()) {
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
  const auto rules = check_rules();
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const CheckRule& r) { return r.name == kind; });
  if (rule == rules.end()) {
    std::vector<std::string> names;
    std::transform(rules.begin(), rules.end(), std::back_inserter(names),
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

}  // namespace detforge
