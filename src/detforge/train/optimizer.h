#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/core/tensor.h"

namespace detforge {

/// Tensors by name, in a fixed order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct GradientClipOptions {
  enum class Type {
    kNone,
    kValue,  ///< every element to [-value, value]
    kNorm,   ///< every parameter's gradient by itself to norm `value` (Detectron2's CLIP_TYPE norm)
    kFullModel,  ///< all gradients together to norm `value` (mmdetection's grad_clip)
  };
  Type type = Type::kNone;
  double value = 1.0;
  double norm_type = 2.0;  ///< p of the p-norm, at least 1; infinity = largest absolute value
};

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 1e-4;
  double weight_decay_norm = 0;   ///< for weight and bias of normalisation layers
  double weight_decay_bias = -1;  ///< for every parameter named `bias`; negative: as the others
  double bias_lr_factor =
      1;  ///< learning rate of every parameter named `bias`, relative to the others
  GradientClipOptions clip = {};
};

/// True for parameters of normalisation layers: their module is called `norm` or `bn` (with a
/// number perhaps), as in Detectron2 (`conv1.norm.weight`), mmdetection (`conv1.bn.weight`) and
/// torchvision (`bn1.weight`).
bool is_norm_parameter(const std::string& name);

/// Of all gradients together, and the sum of squares of each parameter's; of the true gradients,
/// which those in memory are `loss_scale` times.
struct GradientNorm {
  double total = 0;
  std::vector<double> squares;
  double loss_scale = 1;
};

/// Stochastic gradient descent with momentum, weight decay and Detectron2's parameter groups:
///   g <- clip(g) + wd p;   v <- momentum v + g;   p <- p - lr (nesterov ? g + momentum v : v)
/// Updates the trainable parameters (requires_grad at construction) of the module that it was made
/// for; parameters that are shared count once. Parameters are f32 on the CPU, dense; construction
/// moves them into one buffer, where their momentum has another. keep_in() makes some of them
/// 16-bit copies of f32 masters, which take the updates. One pass over memory for the norm (which
/// tells whether all is finite), one that removes the loss scale, clips, steps and rounds; results
/// do not depend on the number of threads. Not thread-safe. Ref: torch.optim.SGD,
/// detectron2/solver/build.py; masters: Micikevicius et al., Mixed Precision Training,
/// arXiv:1710.03740, sec. 3.1.
///   Sgd sgd(model, {.weight_decay = 1e-4});
///   loss.backward();
///   const GradientNorm norm = sgd.gradient_norm();
///   if (std::isfinite(norm.total)) sgd.step(lr, norm);
class Sgd {
 public:
  Sgd(const torch::nn::Module& model, SgdOptions options);

  /// Drops all gradients (they become undefined, so that backward need not add to zeros).
  void zero_grad();
  /// Sums of squares and their root, in double, of the gradients divided by `loss_scale`; not
  /// finite if any element is not. Throws Error naming a parameter without gradient: the Detector
  /// contract promises one to each.
  GradientNorm gradient_norm(double loss_scale = 1) const;
  /// One update of every parameter. `norm` is that of these gradients, which are not changed. Same
  /// Error as gradient_norm().
  void step(double lr, const GradientNorm& norm);
  /// For who has no other use for the norm.
  void step(double lr) { step(lr, gradient_norm()); }

  /// From now on the parameters whose name `choose` accepts are kept in `type` (f16, bf16), and so
  /// are their gradients. Their f32 values stay as masters, if `with_masters`; else there are none,
  /// and updates are rounded into the parameters themselves. To be called once, when the weights to
  /// train from are in the model.
  void keep_in(at::ScalarType type,
               bool with_masters,
               const std::function<bool(const std::string&)>& choose);
  /// The f32 masters by parameter name; share storage.
  NamedTensors masters() const;
  /// Rounds the masters, which were changed from outside, into their parameters.
  void publish_masters();

  /// Trainable parameters, their gradients being the module's; share storage with the module.
  NamedTensors parameters() const;
  /// Momentum buffers by parameter name; share storage with the optimizer.
  NamedTensors state() const;
  /// Copies momentum buffers in. Throws Error unless names and shapes are exactly those of state().
  void load_state(const NamedTensors& state);
  const SgdOptions& options() const { return options_; }

 private:
  struct Slot {
    std::string name;
    Tensor parameter;  ///< the module's
    Tensor weight;     ///< f32 that takes the updates: the parameter's own values, or its master
    Tensor momentum;
    double weight_decay, lr_factor;
    bool has_master = false;
  };
  void make_flat();
  std::vector<double> clip_scales(const NamedTensors& gradients, const GradientNorm& norm) const;
  NamedTensors gradients() const;

  SgdOptions options_;
  std::vector<Slot> slots_;
};

}  // namespace detforge
