#include "detforge/core/log.h"

#include <memory>
#include <mutex>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "detforge/core/error.h"

namespace detforge::log {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "detforge", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^[%m-%d %H:%M:%S %L]%$ %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}

void add_file(const std::string& path) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, /*truncate=*/false);
    sink->set_pattern("[%Y-%m-%d %H:%M:%S %L] %v");
    logger().sinks().push_back(std::move(sink));
  } catch (const spdlog::spdlog_ex& e) {
    throw Error(std::string("cannot open the log file: ") + e.what(),
                "check that the folder exists and is writable")
        .add_where(path);
  }
}

void write(Level level, std::string_view text) {
  logger().log(to_spdlog(level), fmt::string_view(text.data(), text.size()));
}

void write_to_files(Level level, std::string_view text) {
  const spdlog::details::log_msg message("detforge", to_spdlog(level),
                                         spdlog::string_view_t(text.data(), text.size()));
  const auto& sinks = logger().sinks();
  for (std::size_t i = 1; i < sinks.size(); ++i) {  // the first is stderr
    sinks[i]->log(message);
    sinks[i]->flush();
  }
}

}  // namespace detforge::log
