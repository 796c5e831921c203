#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

/// Logging for the whole library, on stderr and, once add_file() was called, in a file too.
/// Thread-safe. The level comes from set_level() (the program maps --verbose / --quiet to it).
namespace detforge::log {

enum class Level { kDebug, kInfo, kWarn, kError };

void set_level(Level level);
/// Appends every later line to `path` (the run folder's log.txt). Throws Error if it cannot be
/// opened.
void add_file(const std::string& path);
void write(Level level, std::string_view text);
/// Writes to the files of add_file() only: for what the program prints in another form itself.
void write_to_files(Level level, std::string_view text);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace detforge::log
