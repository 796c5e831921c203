#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "detforge/distributed/communicator.h"
#include "detforge/distributed/process_place.h"

namespace detforge {

class KeyStore;

struct ProcessGroupOptions {
  ProcessPlace place;
  /// How long a rank may keep the others waiting, at a collective and at the start.
  std::chrono::milliseconds timeout{300'000};
  /// After so long, each rank says whom it still waits for at the start.
  std::chrono::milliseconds patience{30'000};
  /// What must be the same on all ranks, by name: version, settings. Compared at the start.
  std::string agreement = {};
  /// How often each rank tells that it lives.
  std::chrono::milliseconds heartbeat{1000};
};

/// Joins the ranks of a run: c10d's Gloo over TCP. Every rank calls it once; it returns when all
/// have met. Throws CommunicationError naming the ranks that did not come within the timeout, and
/// Error for two processes of the same rank, ranks whose agreement differs, a taken port or an
/// interface that does not exist. From then on SIGPIPE is ignored: writing to who is gone fails.
/// Ref: c10d::ProcessGroupGloo; NCCL and HCCL groups would be made here too, and are not.
std::unique_ptr<Communicator> join_process_group(const ProcessGroupOptions& options);

/// The prefix of a run's keys in the store, for who watches from outside.
std::string store_prefix(const ProcessPlace& place);

}  // namespace detforge
