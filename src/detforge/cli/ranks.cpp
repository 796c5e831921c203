#include "detforge/cli/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "detforge/cli/threads.h"
#include "detforge/config/print.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/distributed/process_group.h"
#include "detforge/distributed/process_place.h"
#include "detforge/distributed/single_process.h"

namespace detforge {
namespace {

/// What all ranks must have in common. Paths may differ between machines; a seed that was drawn is
/// rank 0's.
std::string agreement(Config config) {
  config.output_dir.clear();
  config.datasets = {};
  config.model.weights.clear();
  std::string& cfg = config.model.darknet.cfg;
  cfg = cfg.empty() ? "" : files::read(cfg);
  config.dataloader.num_workers = 0;
  config.seed = 0;
  return fmt::format("DetForge {}, settings {:016x}", DETFORGE_VERSION,
                     files::fnv1a64(to_yaml(config)));
}

constexpr const char* kRestarts = "DETFORGE_RESTARTS";

Error usage(const std::string& what, const std::string& fix) {
  return {what, fix, Error::Kind::kUsage};
}

}  // namespace

bool starts_ranks(const RankArguments& a) {
  const bool many_nodes = a.nnodes > 1;
  if (a.nproc <= 1 && !many_nodes) {
    return false;
  }
  if (const auto place = place_from_environment()) {
    throw usage(fmt::format("--nproc starts ranks, but this process is rank {} of {} of {} already",
                            place->rank, place->world_size, place->started_by),
                "leave --nproc and --nnodes out under another launcher, or unset its variables");
  }
  if (a.nproc < 1) {
    throw usage("--nnodes needs --nproc", "say how many ranks each machine starts");
  }
  if (a.node_rank >= std::max<std::int64_t>(a.nnodes, 1)) {
    throw usage(fmt::format("--node-rank {} of {} machines", a.node_rank, a.nnodes),
                "machines are numbered from 0 to --nnodes - 1");
  }
  if (many_nodes && a.master_port == 0) {
    throw usage("several machines need a port to meet at",
                "add --master-addr and --master-port, the same on all");
  }
  return true;
}

std::int64_t restarts_so_far() {
  const char* text = std::getenv(kRestarts);
  return text == nullptr ? 0 : std::atoll(text);
}

void count_restart() {
  ::setenv(kRestarts, std::to_string(restarts_so_far() + 1).c_str(), /*overwrite=*/1);
}

LaunchResult run_ranks(const RankArguments& a,
                       const std::filesystem::path& folder,
                       const std::function<int(const ProcessPlace&)>& work) {
  return launch_local_ranks({.local_ranks = a.nproc,
                             .nodes = a.nnodes,
                             .node_rank = a.node_rank,
                             .master_addr = a.master_addr,
                             .master_port = static_cast<std::uint16_t>(a.master_port),
                             .local_addr = a.local_addr,
                             .bind_cores = a.bind_cores,
                             .log_folder = folder / "logs",
                             .attempt = std::to_string(restarts_so_far())},
                            work);
}

namespace {

std::unique_ptr<Communicator> join_run(const std::optional<ProcessPlace>& place,
                                       const Config& config) {
  if (!place) {
    return std::make_unique<SingleProcess>();
  }
  const std::chrono::milliseconds timeout{
      static_cast<std::int64_t>(config.distributed.timeout_s * 1000)};
  return join_process_group({.place = *place,
                             .timeout = timeout,
                             .patience = std::min(std::chrono::milliseconds(30'000), timeout / 2),
                             .agreement = agreement(config)});
}

}  // namespace

int as_rank(const std::optional<ProcessPlace>& place,
            const Config& config,
            const std::function<void(Communicator&)>& body) {
  const auto communicator = join_run(place, config);
  try {
    body(*communicator);
    communicator->barrier();  // who serves the meeting place must not leave first
  } catch (const std::exception& error) {
    communicator->give_up(error.what());
    throw;
  }
  return 0;
}

std::filesystem::path log_of_rank(const std::filesystem::path& folder, std::int64_t rank) {
  return folder / "logs" / fmt::format("rank_{}.log", rank);
}

int configure_rank_threads(int requested, const std::optional<ProcessPlace>& place) {
  if (!place || requested > 0) {
    return configure_threads(requested);
  }
  const auto ranks = static_cast<int>(place->local_world_size);
  const int cores = usable_cores();
  // Other launchers bind ranks to cores of their own without saying so.
  const bool has_own_cores =
      place->started_by == "detforge" ? place->has_own_cores : cores * ranks <= all_cores();
  return configure_threads(std::max(1, has_own_cores ? cores : cores / ranks));
}

}  // namespace detforge
