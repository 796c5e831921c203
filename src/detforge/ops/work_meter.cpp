#include "detforge/ops/work_meter.h"

#include "detforge/core/error.h"

namespace detforge {
namespace {

WorkMeter*& current() {
  thread_local WorkMeter* meter = nullptr;
  return meter;
}

}  // namespace

WorkMeter::WorkMeter() {
  DETFORGE_CHECK(current() == nullptr, "a WorkMeter is already counting on this thread",
                 "end it first");
  current() = this;
}

WorkMeter::~WorkMeter() {
  current() = nullptr;
}

void WorkMeter::add(const LayerWork& work) {
  WorkMeter* meter = current();
  if (meter == nullptr) {
    return;
  }
  meter->forward_macs_ += work.macs;
  meter->backward_macs_ +=
      (work.trains_weight ? work.macs : 0) + (work.needs_input_gradient ? work.macs : 0);
  meter->kept_bytes_ += work.trains_weight || work.needs_input_gradient ? work.output_bytes : 0;
}

}  // namespace detforge
