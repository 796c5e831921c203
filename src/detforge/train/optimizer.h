#pragma once

#include <cstdint>
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

/// Of all gradients together, and the sum of squares of each parameter's.
struct GradientNorm {
  double total = 0;
  std::vector<double> squares;
};

/// Stochastic gradient descent with momentum, weight decay and Detectron2's parameter groups:
///   g <- clip(g) + wd p;   v <- momentum v + g;   p <- p - lr (nesterov ? g + momentum v : v)
/// Updates the trainable parameters (requires_grad at construction) of the module that it was made
/// for; parameters that are shared count once. Parameters are f32 on the CPU, dense. One pass over
/// memory; results do not depend on the number of threads. Not thread-safe. Ref: torch.optim.SGD,
/// detectron2/solver/build.py.
///   Sgd sgd(model, {.weight_decay = 1e-4});
///   loss.backward();
///   const GradientNorm norm = sgd.gradient_norm();
///   if (std::isfinite(norm.total)) sgd.step(lr, norm);
class Sgd {
 public:
  Sgd(const torch::nn::Module& model, SgdOptions options);

  /// Drops all gradients (they become undefined, so that backward need not add to zeros).
  void zero_grad();
  /// Sums of squares and their root, in double; not finite if any element is not. Throws Error
  /// naming a parameter without gradient: the Detector contract promises one to each.
  GradientNorm gradient_norm() const;
  /// One update of every parameter. `norm` is that of these gradients, which are not changed. Same
  /// Error as gradient_norm().
  void step(double lr, const GradientNorm& norm);
  /// For who has no other use for the norm.
  void step(double lr) { step(lr, gradient_norm()); }

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
    Tensor parameter, momentum;
    double weight_decay, lr_factor;
  };
  std::vector<double> clip_scales(const NamedTensors& gradients, const GradientNorm& norm) const;
  NamedTensors gradients() const;

  SgdOptions options_;
  std::vector<Slot> slots_;
};

}  // namespace detforge
