#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "detforge/distributed/process_place.h"

namespace detforge {

struct LaunchOptions {
  std::int64_t local_ranks = 1;           ///< processes on this machine
  std::int64_t nodes = 1, node_rank = 0;  ///< machines, each with as many
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;  ///< 0: a free one, if there is one node
  std::string local_addr = {};
  bool bind_cores = false;  ///< each rank gets its own part of the usable cores
  std::filesystem::path
      log_folder;      ///< rank_K.log of all ranks but 0, which writes to the terminal
  double grace_s = 8;  ///< for the others after a failure, before they are killed; while one saves
                       ///< what the ranks had, up to rescue_s
  double rescue_s = 120;
  std::string attempt = "0";  ///< of a run that is started again; the same on all machines
};

struct LaunchResult {
  int status = 0;
  bool was_stopped = false;  ///< by a signal to this process
};

/// Runs `work` in forked processes, one for each local rank, and watches over them; node 0's call
/// serves the meeting place. Returns when no process is left: status 0 if all returned 0, else the
/// first failure's (1 if by a signal), after saying which rank failed first, how, and in which
/// phase. SIGINT and SIGTERM ask all ranks to stop cleanly, the second kills them. If the caller is
/// killed, the ranks die with it. Must be called before this process has started any thread that
/// still runs. Throws Error (kUsage) if the port is taken.
LaunchResult launch_local_ranks(const LaunchOptions& options,
                                const std::function<int(const ProcessPlace&)>& work);

}  // namespace detforge
