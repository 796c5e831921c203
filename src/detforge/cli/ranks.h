#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "detforge/cli/arguments.h"
#include "detforge/config/config.h"
#include "detforge/distributed/communicator.h"
#include "detforge/distributed/local_launcher.h"

/// The processes of a run, from arguments, config and environment.
namespace detforge {

/// True if this process shall start ranks and watch over them, instead of being one. Throws Error
/// (usage) if another launcher has started this process as a rank already, or for arguments that do
/// not fit together.
bool starts_ranks(const RankArguments& arguments);

/// How often this run has started itself again (DETFORGE_RESTARTS in the environment): its machines
/// must not take each other's earlier attempts for this one.
std::int64_t restarts_so_far();
void count_restart();

/// Runs `work` as each rank of this machine; see launch_local_ranks. logs/ lies in `folder`.
LaunchResult run_ranks(const RankArguments& arguments,
                       const std::filesystem::path& folder,
                       const std::function<int(const ProcessPlace&)>& work);

/// Meets the other ranks, if there are any, runs `body` and takes leave of them. They are told what
/// it throws. Returns 0.
int as_rank(const std::optional<ProcessPlace>& place,
            const Config& config,
            const std::function<void(Communicator&)>& body);

/// What a rank other than 0 writes to.
std::filesystem::path log_of_rank(const std::filesystem::path& folder, std::int64_t rank);

/// Splits the usable cores among the ranks of this machine, unless `requested` says how many
/// threads each has. Logs it. Returns the number.
int configure_rank_threads(int requested, const std::optional<ProcessPlace>& place);

}  // namespace detforge
