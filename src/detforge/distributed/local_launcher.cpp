#include "detforge/distributed/local_launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <optional>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/distributed/key_store.h"
#include "detforge/distributed/presence.h"
#include "detforge/distributed/process_group.h"
#include "detforge/distributed/rank_output.h"

namespace detforge {
namespace {

struct Child {
  pid_t pid = 0;
  std::int64_t rank = 0;
  bool lives = true;
};

/// SIGCHLD, SIGINT and SIGTERM wait until next() asks for them; as before at the end. SIGPIPE is
/// ignored from here on.
class HeldSignals {
 public:
  HeldSignals() {
    ::sigemptyset(&set_);
    ::signal(SIGPIPE, SIG_IGN);  // children that are gone are noticed by their status
    for (const int number : {SIGCHLD, SIGINT, SIGTERM}) {
      ::sigaddset(&set_, number);
    }
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  void release() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// 0 if none came within the time.
  int next(double seconds) const {
    const timespec time{.tv_sec = static_cast<time_t>(seconds),
                        .tv_nsec = static_cast<long>(1e9 * (seconds - std::floor(seconds)))};
    const int number = ::sigtimedwait(&set_, nullptr, &time);
    return std::max(number, 0);
  }

 private:
  sigset_t set_ = {}, before_ = {};
};

/// Consecutive ones of those that this process may use.
void use_own_cores(std::int64_t part, std::int64_t parts) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ::sched_getaffinity(0, sizeof(all), &all);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) {
      cores.push_back(core);
    }
  }
  const auto count = static_cast<std::int64_t>(cores.size());
  const std::int64_t begin = std::min(part * count / parts, count - 1);
  const std::int64_t end = std::max((part + 1) * count / parts, begin + 1);
  cpu_set_t own;
  CPU_ZERO(&own);
  for (std::int64_t i = begin; i < end; ++i) {
    CPU_SET(cores[static_cast<std::size_t>(i)], &own);
  }
  ::sched_setaffinity(0, sizeof(own), &own);
}

std::string last_lines(const std::filesystem::path& path, std::size_t count) {
  std::deque<std::string> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back("    " + line);
    if (lines.size() > count) {
      lines.pop_front();
    }
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                                           ::strsignal(WTERMSIG(status)))
                             : fmt::format("ended with status {}", WEXITSTATUS(status));
}

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, const std::function<int(const ProcessPlace&)>& work)
      : options_(options), work_(work) {}
  ~Supervisor() {
    kill_all(SIGKILL);
    for (const Child& child : children_) {
      if (child.lives) {
        ::waitpid(child.pid, nullptr, 0);
      }
    }
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  LaunchResult run() {
    std::filesystem::create_directories(options_.log_folder);
    start_all();
    open_meeting_place();
    watch();
    wait_for_other_nodes();
    return {.status = status_.value_or(0), .was_stopped = asked_to_stop_};
  }

 private:
  void start_all() {
    // Through it the children learn the port, or, at its end, that there is none.
    DETFORGE_CHECK(::pipe2(port_pipe_.data(), O_CLOEXEC) == 0,
                   fmt::format("no pipe can be made: {}", std::strerror(errno)),
                   "raise the limit of open files");
    for (std::int64_t local = 0; local < options_.local_ranks; ++local) {
      start(local);
    }
    ::close(port_pipe_[0]);
  }

  void start(std::int64_t local) {
    const pid_t parent = ::getpid();
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    DETFORGE_CHECK(pid >= 0, fmt::format("no process can be started: {}", std::strerror(errno)),
                   "start fewer ranks, or raise the limit of processes");
    const std::int64_t rank = options_.node_rank * options_.local_ranks + local;
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) {
        ::_exit(1);
      }
      ::setpgid(0, children_.empty() ? 0 : children_.front().pid);
      run_child(rank, local);
    }
    ::setpgid(pid, children_.empty() ? pid : children_.front().pid);
    children_.push_back({.pid = pid, .rank = rank});
  }

  [[noreturn]] void run_child(std::int64_t rank, std::int64_t local) {
    signals_.release();
    ::signal(SIGPIPE, SIG_DFL);
    ::close(port_pipe_[1]);
    std::optional<RankOutput> output;
    if (rank != 0) {
      output.emplace(log_of(rank));
    }
    std::uint16_t port = 0;
    if (::read(port_pipe_[0], &port, sizeof(port)) != sizeof(port)) {
      ::_exit(2);
    }
    if (options_.bind_cores) {
      use_own_cores(local, options_.local_ranks);
    }
    const int status = work_({.rank = rank,
                              .world_size = options_.nodes * options_.local_ranks,
                              .local_rank = local,
                              .local_world_size = options_.local_ranks,
                              .master_addr = options_.master_addr,
                              .master_port = port,
                              .local_addr = options_.local_addr,
                              .has_own_cores = options_.bind_cores,
                              .attempt = options_.attempt});
    std::fflush(nullptr);
    ::_exit(status);
  }

  /// Only now: forked processes must not inherit its threads.
  void open_meeting_place() {
    const KeyStore::Place place{options_.master_addr, options_.master_port};
    std::uint16_t port = place.port;
    if (options_.node_rank == 0) {
      store_ = KeyStore::serve(place);
      port = store_->place().port;
    }
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (::write(port_pipe_[1], &port, sizeof(port)) != sizeof(port)) {
        break;  // all children are gone, which watch() reports
      }
    }
    ::close(port_pipe_[1]);
  }

  void watch() {
    while (reap()) {
      const double left = status_ ? options_.grace_s - since_failure_.elapsed_s() : 1;
      if (left <= 0 && !is_saving()) {
        kill_all(SIGKILL);
      }
      const int signal = signals_.next(std::clamp(left, 0.05, 1.0));
      if (signal == SIGINT || signal == SIGTERM) {
        log::warn("{}: {}", signal == SIGINT ? "SIGINT" : "SIGTERM",
                  asked_to_stop_
                      ? "killing all ranks"
                      : "asking all ranks to stop after this step; once more to kill them");
        kill_all(asked_to_stop_ ? SIGKILL : SIGTERM);
        asked_to_stop_ = true;
      }
    }
  }

  std::string own_prefix() const { return store_prefix({.attempt = options_.attempt}); }

  /// A rank that lives keeps what all of them had: worth a wait.
  bool is_saving() const {
    if (!store_ || since_failure_.elapsed_s() > options_.rescue_s) {
      return false;
    }
    return std::any_of(children_.begin(), children_.end(), [&](const Child& child) {
      const auto state = child.lives ? read_state(*store_, own_prefix(), child.rank) : std::nullopt;
      return state && state->phase == kRescuePhase;
    });
  }

  /// Their ranks say good-bye to the meeting place, which is here.
  void wait_for_other_nodes() {
    const std::int64_t world_size = options_.nodes * options_.local_ranks;
    const Timer timer;
    while (store_ && options_.nodes > 1 && !status_ && timer.elapsed_s() < options_.grace_s &&
           store_->add(own_prefix() + "/left", 0) < world_size) {
      signals_.next(0.05);
    }
  }

  /// Takes note of children that have ended; true while one lives.
  bool reap() {
    for (Child& child : children_) {
      int status = 0;
      if (child.lives && ::waitpid(child.pid, &status, WNOHANG) == child.pid) {
        child.lives = false;
        if (status != 0 && !status_) {
          since_failure_.restart();
          status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
          report(child, status);
        } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
          log::error("rank {} (pid {}) {}", child.rank, child.pid, how_it_ended(status));
        }
      }
    }
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return child.lives; });
  }

  void report(const Child& child, int status) {
    const std::string prefix = own_prefix();
    const std::string how = how_it_ended(status);
    std::string cause = fmt::format("rank {} (pid {}) {}", child.rank, child.pid, how);
    if (store_) {
      if (const auto told = read_failure(*store_, prefix)) {
        cause = *told;
      } else {
        cause = fmt::format(
            "{}: it {}", describe_rank(child.rank, read_state(*store_, prefix, child.rank)), how);
        report_failure(*store_, prefix, cause);
      }
    }
    log::error("the run ends because of a rank: {}", cause);
    if (child.rank != 0) {
      log::error("the end of {}:\n{}", log_of(child.rank).string(),
                 last_lines(log_of(child.rank), 6));
    }
    log::info("the other ranks have {:.0f} s to end", options_.grace_s);
  }

  void kill_all(int signal) {
    for (const Child& child : children_) {
      if (child.lives) {
        ::kill(child.pid, signal);
        if (signal == SIGTERM) {
          ::kill(child.pid, SIGCONT);  // a stopped process would never hear of it
        }
      }
    }
  }

  std::filesystem::path log_of(std::int64_t rank) const {
    return options_.log_folder / fmt::format("rank_{}.log", rank);
  }

  const LaunchOptions& options_;
  const std::function<int(const ProcessPlace&)>& work_;
  HeldSignals signals_;
  std::array<int, 2> port_pipe_ = {-1, -1};
  std::vector<Child> children_;
  std::shared_ptr<KeyStore> store_;
  std::optional<int> status_;  ///< of the first failure
  bool asked_to_stop_ = false;
  Timer since_failure_;
};

}  // namespace

LaunchResult launch_local_ranks(const LaunchOptions& options,
                                const std::function<int(const ProcessPlace&)>& work) {
  return Supervisor(options, work).run();
}

}  // namespace detforge
