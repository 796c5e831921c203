#pragma once

#include <array>
#include <span>
#include <string_view>

#include "detforge/data/checks.h"

namespace detforge {

/// What a problem is about.
enum class CheckSubject : std::uint8_t { kImage, kCategory, kAnnotation };

/// One row of the table that gives every problem its name, policy and words.
struct CheckRule {
  CheckKind kind;
  std::string_view name;
  CheckSubject subject;
  CheckAction action;        ///< by default
  std::string_view choices;  ///< letters of the allowed actions: f d e
  bool is_note;              ///< nothing is wrong or lost; reported so that it is known
  std::string_view meaning;  ///< what was met and what fix and drop do
  std::string_view advice;   ///< for the error message
};

/// All rules, indexed by CheckKind.
std::span<const CheckRule, kCheckKinds> check_rules();

inline const CheckRule& rule_of(CheckKind kind) {
  return check_rules()[static_cast<std::size_t>(kind)];
}

}  // namespace detforge
