#include "detforge/core/error.h"

#include <utility>

namespace detforge {

Error::Error(std::string what, std::string fix, Kind kind)
    : std::runtime_error(what), message_(std::move(what)), fix_(std::move(fix)), kind_(kind) {
  compose();
}

Error& Error::add_where(std::string_view where) {
  where_ = where_.empty() ? std::string(where) : std::string(where) + ", " + where_;
  compose();
  return *this;
}

Error& Error::at(const char* file, int line) {
  if (source_.empty()) {
    source_ = std::string(file) + ":" + std::to_string(line);
  }
  return *this;
}

void Error::compose() {
  full_ = message_;
  if (!where_.empty()) {
    full_ += " | where: " + where_;
  }
  if (!fix_.empty()) {
    full_ += " | fix: " + fix_;
  }
}

}  // namespace detforge
