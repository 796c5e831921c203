#pragma once

#include <cstdint>

#include "detforge/distributed/communicator.h"
#include "detforge/models/detector.h"
#include "detforge/train/loop.h"

namespace detforge {

/// 64-bit hash of all parameters' bytes, by name.
std::uint64_t hash_of_weights(const Detector& detector);

/// Throws Error on all ranks, naming those that differ from rank 0, unless every rank has the same
/// weights, bit for bit. `when` is for the message: "at the start".
void check_same_weights(Communicator& communicator, const Detector& detector, const char* when);

/// The same every `period` steps; 0: never.
class SameWeightsHook : public Hook {
 public:
  SameWeightsHook(Communicator& communicator, const Detector& detector, std::int64_t period)
      : communicator_(communicator), detector_(detector), period_(period) {}
  void after_step(const StepReport& report) override {
    if (period_ > 0 && report.progress.iteration % period_ == 0) {
      check_same_weights(communicator_, detector_, "after a step");
    }
  }

 private:
  Communicator& communicator_;
  const Detector& detector_;
  std::int64_t period_;
};

/// Rank 0's running statistics of norms on all ranks: those of norms that see their own rank's
/// images alone differ, and a model must be evaluated with one set.
void share_buffers(Communicator& communicator, const Detector& detector);

}  // namespace detforge
