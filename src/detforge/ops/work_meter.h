#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace detforge {

enum class LayerKind { kConv, kConvTranspose, kConvAtChannel, kLinear };

/// What ops/conv2d was called with, but for the values.
struct LayerShape {
  LayerKind kind = LayerKind::kConv;
  std::array<std::int64_t, 4> input{};  ///< [N,C,H,W]; linear: [N,In,1,1]
  std::array<std::int64_t, 4>
      weight{};  ///< as the function of `kind` takes it; linear: [Out,In,1,1]
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;

  bool operator==(const LayerShape&) const = default;
};

/// One layer's forward: what it costs now, and what training will cost later.
struct LayerWork {
  double macs = 0;  ///< multiply-adds of the direct algorithm; one is two FLOPs
  double output_bytes = 0;
  bool trains_weight = false;  ///< backward computes the weight's gradient: as many MACs again
  bool needs_input_gradient =
      false;  ///< backward computes the input's gradient: as many MACs again
};

/// How often one shape was run, and how often each pass of its backward will be.
struct LayerCount {
  LayerShape shape;
  double macs = 0;  ///< of one pass
  std::int64_t forward = 0, backward_data = 0, backward_weight = 0;
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
  /// Every shape once, in the order of their first runs.
  const std::vector<LayerCount>& layers() const { return layers_; }

  /// Called by ops/conv2d for each layer; does nothing without a meter on this thread. A layer that
  /// is computed again counts as work, but not among what is kept.
  static void add(const LayerShape& shape, const LayerWork& work);
  /// Called for what else backward needs.
  static void add_kept(double bytes);

 private:
  LayerCount& count_of(const LayerShape& shape);

  double forward_macs_ = 0, backward_macs_ = 0, kept_bytes_ = 0;
  std::vector<LayerCount> layers_;
};

}  // namespace detforge
