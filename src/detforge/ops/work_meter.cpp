#include "detforge/ops/work_meter.h"

#include <algorithm>

#include "detforge/core/error.h"
#include "detforge/ops/activation_checkpoint.h"

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

LayerCount& WorkMeter::count_of(const LayerShape& shape) {
  const auto known = std::find_if(layers_.begin(), layers_.end(),
                                  [&](const LayerCount& count) { return count.shape == shape; });
  return known != layers_.end() ? *known : layers_.emplace_back(LayerCount{.shape = shape});
}

void WorkMeter::add(const LayerShape& shape, const LayerWork& work) {
  WorkMeter* meter = current();
  if (meter == nullptr) {
    return;
  }
  LayerCount& count = meter->count_of(shape);
  count.macs = work.macs;
  count.forward += 1;
  count.backward_data += work.needs_input_gradient ? 1 : 0;
  count.backward_weight += work.trains_weight ? 1 : 0;
  meter->forward_macs_ += work.macs;
  meter->backward_macs_ +=
      (work.trains_weight ? work.macs : 0) + (work.needs_input_gradient ? work.macs : 0);
  if (!is_recomputing() && (work.trains_weight || work.needs_input_gradient)) {
    meter->kept_bytes_ += work.output_bytes;
  }
}

void WorkMeter::add_kept(double bytes) {
  if (current() != nullptr) {
    current()->kept_bytes_ += bytes;
  }
}

}  // namespace detforge
