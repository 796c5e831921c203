#include "detforge/models/synchronise_norms.h"

#include <memory>

#include "detforge/models/blocks.h"

namespace detforge {

bool synchronise_norms(Detector& detector, Communicator& communicator) {
  if (communicator.world_size() == 1) {
    return false;
  }
  std::shared_ptr<Communicator> channel;
  for (const auto& module : detector.modules(/*include_self=*/false)) {
    auto* norm = module->as<NormImpl>();
    if (norm == nullptr || norm->type() != NormType::kSyncBn) {
      continue;
    }
    if (channel == nullptr) {
      channel = communicator.channel("norms");
    }
    norm->set_all_reduce([channel](Tensor& sums) { channel->all_reduce_sum_(sums); });
  }
  return channel != nullptr;
}

}  // namespace detforge
