#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "detforge/core/tensor.h"
#include "detforge/models/init.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/fold_norm.h"
#include "detforge/ops/sync_batch_norm.h"

namespace detforge {

enum class NormType {
  kNone,
  kFrozenBn,  ///< fixed statistics and affine values: buffers, never trained
  kBn,        ///< batch statistics while training, of this rank's images
  kSyncBn,    ///< of all ranks' images, once synchronise_norms() was called
  kEvalBn,    ///< running statistics also while training, affine values trained (norm_eval)
  kGn,        ///< 32 groups
};

struct NormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< part of a batch's statistics in the running ones (kBn)
};

/// One normalisation layer [N,C,H,W] -> same shape. State names as in Detectron2: weight,
/// bias (parameters, buffers for kFrozenBn) and, unless kGn, running_mean, running_var buffers.
class NormImpl : public torch::nn::Module {
 public:
  /// `type` must not be kNone. Throws Error if 32 groups do not divide `channels`.
  NormImpl(NormType type, std::int64_t channels, NormOptions options);

  /// True if the layer is now an affine map whose factors the input does not change (statistics are
  /// fixed, or BN outside training, or BN given no pixel): then folded into the convolution before
  /// it, and forward() is not needed.
  bool is_affine(const Tensor& input) const;
  /// Weight and bias of the convolution before, with this norm inside; is_affine() must hold.
  FoldedConv fold(const Tensor& conv_weight, const Tensor& conv_bias) const;
  /// True for every type whose statistics are fixed outside training.
  bool has_running_statistics() const { return type_ != NormType::kGn; }
  /// activation(norm(input) + residual); residual undefined or of the input's shape.
  Tensor forward(const Tensor& input,
                 const Tensor& residual = {},
                 Activation activation = Activation::kNone) const;

  NormType type() const { return type_; }
  /// For kSyncBn: how ranks add up. Without it, the rank is alone.
  void set_all_reduce(AllReduce all_reduce) { all_reduce_ = std::move(all_reduce); }

 private:
  bool takes_batch_statistics() const {
    return type_ == NormType::kBn || type_ == NormType::kSyncBn;
  }

  NormType type_;
  NormOptions options_;
  AllReduce all_reduce_;
  Tensor weight_, bias_, running_mean_, running_var_;
};
TORCH_MODULE(Norm);

/// Whose state names a layer has.
enum class StateNames {
  kDetectron2,   ///< weight, bias, norm.*
  kMmdetection,  ///< conv.weight, conv.bias, bn.*: mmcv's ConvModule
};

struct ConvLayerOptions {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  NormType norm = NormType::kNone;  ///< a bias is there exactly if there is no norm
  double norm_eps = NormOptions{}.eps;
  double norm_momentum = NormOptions{}.momentum;
  Activation activation = Activation::kNone;
  WeightInit init{.kind = WeightInit::Kind::kMsra};
  StateNames names = StateNames::kDetectron2;
};

/// The options completed to the layer that Darknets are made of: leaky ReLU (slope 0.1), padding
/// that keeps the size at stride 1, mmdetection's names.
ConvLayerOptions darknet_layer(ConvLayerOptions options);

/// activation(norm(conv(x)) + residual): the block that every network here is made of. Parameters:
/// weight, and bias or norm.*, as StateNames says. Norms with fixed statistics cost nothing: they
/// are folded into the convolution.
class ConvLayerImpl : public torch::nn::Module, public Initializable {
 public:
  explicit ConvLayerImpl(const ConvLayerOptions& options);

  /// input [N,in,H,W] -> [N,out,H',W']; residual undefined or of the output's shape. N = 0 is
  /// allowed.
  Tensor forward(const Tensor& input, const Tensor& residual = {}) const;
  /// The same without a residual, for an input that a shortcut uses once more: see
  /// conv2d_and_input.
  ConvAndInput forward_and_input(const Tensor& input) const;
  void initialize(std::uint64_t key) override;
  /// See fold_norms_.
  void fold_norm_();

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  ///< undefined if there is a norm

 private:
  torch::nn::Module& owner();  ///< of the weight and the bias
  ConvAndInput run(const Tensor& input, const Tensor& residual, bool returns_input) const;

  ConvLayerOptions options_;
  Tensor weight_, bias_;
  Norm norm_{nullptr};
};
TORCH_MODULE(ConvLayer);

struct LinearLayerOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  Activation activation = Activation::kNone;
  WeightInit init{.kind = WeightInit::Kind::kXavier};
};

/// activation(x weight^T + bias). Parameters: weight [out,in], bias [out].
class LinearLayerImpl : public torch::nn::Module, public Initializable {
 public:
  explicit LinearLayerImpl(const LinearLayerOptions& options);

  /// input [N,in] -> [N,out]; N = 0 is allowed.
  Tensor forward(const Tensor& input);
  void initialize(std::uint64_t key) override;

 private:
  LinearLayerOptions options_;
  Tensor weight_, bias_;
};
TORCH_MODULE(LinearLayer);

/// Puts every norm with running statistics below `module` into the weight and the bias of its
/// convolution, for good: the same outputs, computed with less work. For a model in eval mode that
/// will only predict: its state no longer has the names that files of weights have.
void fold_norms_(torch::nn::Module& module);

/// Turns the gradients of all parameters below `module` off for good (FREEZE_AT).
void freeze_parameters(torch::nn::Module& module);

}  // namespace detforge
