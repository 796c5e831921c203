#include "detforge/train/signals.h"

#include <array>
#include <csignal>

#include "detforge/core/error.h"

namespace detforge {
namespace {

struct Watched {
  int number;
  const char* name;
};
constexpr std::array<Watched, 2> kWatched = {{{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}}};

// A signal handler can only reach static data; StopSignals' constructor and destructor own it.
volatile std::sig_atomic_t g_received =
    0;                  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
bool g_in_use = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<struct sigaction, kWatched.size()>
    g_before;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void note(int number) {
  g_received = number;
}

}  // namespace

StopSignals::StopSignals(bool second_kills) {
  DETFORGE_CHECK(!g_in_use, "two training loops in one process want to handle SIGTERM",
                 "run one at a time");
  g_in_use = true;
  g_received = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  // SA_RESETHAND: the second signal meets the default action. SA_RESTART: no system call fails with
  // EINTR.
  action.sa_flags = (second_kills ? static_cast<int>(SA_RESETHAND) : 0) | SA_RESTART;
  for (std::size_t i = 0; i < kWatched.size(); ++i) {
    ::sigaction(kWatched[i].number, &action, &g_before[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kWatched.size(); ++i) {
    ::sigaction(kWatched[i].number, &g_before[i], nullptr);
  }
  g_received = 0;
  g_in_use = false;
}

const char* StopSignals::received() {
  for (const Watched& watched : kWatched) {
    if (watched.number == g_received) {
      return watched.name;
    }
  }
  return nullptr;
}

}  // namespace detforge
