#include "detforge/distributed/fault_drill.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <sys/resource.h>
#include <thread>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

constexpr const char* kVariable = "DETFORGE_FAULT";

bool is_action(const std::string& action) {
  return action == "kill" || action == "stop" || action == "fail" || action == "full-disk" ||
         (action.starts_with("slow:") && std::atof(action.c_str() + 5) > 0);
}

void fill_disk() {
  std::signal(SIGXFSZ, SIG_IGN);  // then writing fails, as on a full disk
  const rlimit nothing{.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &nothing);
}

}  // namespace

FaultDrill FaultDrill::parse(const std::string& text) {
  FaultDrill drill;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "rank") {
      drill.rank = std::atoll(value.c_str());
    } else if (key == "phase") {
      drill.phase = value;
    } else if (key == "iteration") {
      drill.iteration = std::atoll(value.c_str());
    } else if (key == "do") {
      drill.action = value;
    }
  }
  if (drill.phase.empty() || !is_action(drill.action)) {
    throw Error(fmt::format("{} is \"{}\"", kVariable, text),
                "write rank=R,phase=PHASE[,iteration=I],do=kill|stop|fail|slow:SECONDS|full-disk",
                Error::Kind::kUsage);
  }
  return drill;
}

std::optional<FaultDrill> FaultDrill::from_environment() {
  const char* text = std::getenv(kVariable);
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional(parse(text));
}

void FaultDrill::at(std::int64_t own_rank, const char* own_phase, std::int64_t own_iteration) {
  if (is_done_ || own_rank != rank || own_phase != phase ||
      (iteration && *iteration != own_iteration)) {
    return;
  }
  is_done_ = true;
  log::warn("{}: {} in {} of iteration {}", kVariable, action, own_phase, own_iteration);
  if (action == "kill" || action == "stop") {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a heartbeat tells the phase
    std::raise(action == "kill" ? SIGKILL : SIGSTOP);
  } else if (action == "fail") {
    throw Error("a fault on order", "unset " + std::string(kVariable));
  } else if (action == "full-disk") {
    fill_disk();
  } else {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::atof(action.c_str() + sizeof("slow:") - 1)));
  }
}

}  // namespace detforge
