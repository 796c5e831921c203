#pragma once

#include <array>
#include <functional>
#include <string>

#include "detforge/core/tensor.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/kernel_backend.h"
#include "detforge/ops/work_meter.h"

namespace detforge {

enum class Pass { kForward, kBackwardData, kBackwardWeight };
inline constexpr std::array kPasses = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeight};

/// "forward", "backward data", "backward weights".
const char* pass_name(Pass pass);

/// "conv 3x3/2 64->128, 1x200x336": kernel and stride, channels, images and size of the input;
/// "linear 12544->1024, 512": features, rows.
std::string layer_name(const LayerShape& shape);

/// The options of a recorded convolution, without its activation.
Conv2dOptions conv_options(const LayerShape& shape);

/// One layer with random values of the usual kind: inputs as after a ReLU, weights as He's, normal
/// output gradients. The same for the same shape. No bias and no activation: they are what the
/// backends fuse differently, and an activation's sign changes would hide the arithmetic's error.
class LayerBench {
 public:
  explicit LayerBench(const LayerShape& shape);

  /// The computation of one pass as often as it is called, on tensors in the layout that the
  /// backend likes: channels last for DetForge's kernels. Backward passes are of a graph made here,
  /// outside of what is timed. Valid as long as this object.
  std::function<Tensor()> pass(Pass pass, KernelBackend backend) const;

  /// What a pass computes, in float64; of large convolutions for 16 of the channels alone: of the
  /// output, of the input, of the filters.
  Tensor reference(Pass pass) const;
  /// Relative L2 error of a result of pass() against reference().
  double error(Pass pass, const Tensor& result, const Tensor& reference) const;

 private:
  Tensor run(const Tensor& input, const Tensor& weight) const;
  Tensor run_double(const Tensor& input, const Tensor& weight) const;
  /// True if the reference may leave channels out and add up parts.
  bool splits() const { return shape_.kind == LayerKind::kConv && shape_.groups == 1; }
  Tensor sampled_channels(std::int64_t channels) const;
  std::int64_t channels_at_once() const;

  LayerShape shape_;
  Tensor input_, weight_, output_gradient_;
};

/// The best time of some runs: at least two, and as many as fit into 0.02 s; if `quick`,
/// one. A run before them is not counted.
double best_seconds(const std::function<Tensor()>& run, bool quick);

}  // namespace detforge
