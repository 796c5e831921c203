#pragma once

#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "detforge/models/blocks.h"
#include "detforge/models/darknet/darknet_cfg.h"
#include "detforge/models/yolo/yolo_scale.h"

namespace detforge {

/// The network of a .cfg file. State names: N.conv.weight and N.conv.bias or N.bn.* of the
/// [convolutional] layer N. Convolutions start as Darknet's do, normal with std sqrt(2 / fan_in);
/// those before a [yolo] with std 0.01. BatchNorm has eps 1e-6 and keeps 0.99 of its running
/// statistics at each step.
class DarknetNetworkImpl : public torch::nn::Module {
 public:
  explicit DarknetNetworkImpl(DarknetCfg cfg);

  /// images [N,3,H,W] f32 -> the map before each [yolo], in their order. `rng_keys`, one per image,
  /// are for [dropout] layers while training, and not looked at otherwise.
  std::vector<Tensor> forward(const Tensor& images, const std::vector<std::uint64_t>& rng_keys);

  /// Sets the biases of the convolutions before a [yolo] to yolo_bias_priors(); to be called behind
  /// initialize_weights().
  void initialize_biases(const YoloLayout& layout);

  const DarknetCfg& cfg() const { return cfg_; }

 private:
  Tensor run_layer(std::size_t index,
                   const std::vector<Tensor>& outputs,
                   const Tensor& images,
                   const std::vector<std::uint64_t>& rng_keys);
  void add_convolution(std::size_t index);
  void find_last_readers();

  DarknetCfg cfg_;
  std::vector<ConvLayer> convolutions_;  ///< by layer; empty holders for other kinds
  std::vector<std::vector<std::size_t>>
      last_read_;  ///< by layer: outputs that no later layer reads
};
TORCH_MODULE(DarknetNetwork);

}  // namespace detforge
