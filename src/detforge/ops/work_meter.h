#pragma once

#include <cstdint>

namespace detforge {

/// One layer's forward: what it costs now, and what training will cost later.
struct LayerWork {
  double macs = 0;  ///< multiply-adds of the direct algorithm; one is two FLOPs
  double output_bytes = 0;
  bool trains_weight = false;  ///< backward computes the weight's gradient: as many MACs again
  bool needs_input_gradient =
      false;  ///< backward computes the input's gradient: as many MACs again
};

/// Adds up the convolutions and linear layers that this thread runs while it lives. At most one per
/// thread.
///   WorkMeter meter;
///   model.predict(images);
///   double gflop = 2e-9 * meter.forward_macs();
class WorkMeter {
 public:
  WorkMeter();
  ~WorkMeter();
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  double forward_macs() const { return forward_macs_; }
  double backward_macs() const { return backward_macs_; }
  /// Bytes of outputs that backward needs again.
  double kept_bytes() const { return kept_bytes_; }

  /// Called by ops/conv2d for each layer; does nothing without a meter on this thread.
  static void add(const LayerWork& work);

 private:
  double forward_macs_ = 0, backward_macs_ = 0, kept_bytes_ = 0;
};

}  // namespace detforge
