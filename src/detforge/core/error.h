#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace detforge {

/// The one exception type: what happened, where in the user's terms, and what to try next.
///   throw Error("bbox has width -3", "give width and height, not the second corner")
///       .add_where("annotation 412, image 77").add_where("instances_train.json");
/// what() prints `bbox has width -3 | where: instances_train.json, annotation 412, image 77 | fix:
/// ...`. Outer layers add context with add_where(); the outermost is printed first.
class Error : public std::runtime_error {
 public:
  /// Errors of kUsage (command line, config) end the program with 2, all others with 1.
  /// kNonFinite: a network computed NaN or infinity; a training step that meets one is skipped, or
  /// ends the run.
  enum class Kind { kRun, kUsage, kNonFinite };

  Error(std::string what, std::string fix, Kind kind = Kind::kRun);

  /// Puts `where` in front of the places named so far. Returns *this, so that it can be thrown.
  Error& add_where(std::string_view where);
  /// Remembers the source line that found the problem (first call wins); shown at log level debug.
  Error& at(const char* file, int line);

  const char* what() const noexcept override { return full_.c_str(); }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& fix() const { return fix_; }
  const std::string& source() const { return source_; }
  Kind kind() const { return kind_; }

 private:
  void compose();
  std::string message_, where_, fix_, source_, full_;
  Kind kind_;
};

}  // namespace detforge

/// For everything that input can cause. `what` and `fix` are evaluated only when the condition
/// fails.
#define DETFORGE_CHECK(condition, what, fix)                         \
  do {                                                               \
    if (!(condition)) {                                              \
      throw ::detforge::Error((what), (fix)).at(__FILE__, __LINE__); \
    }                                                                \
  } while (false)
