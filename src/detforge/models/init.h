#pragma once

#include <cstdint>

#include <torch/nn/module.h>

#include "detforge/core/tensor.h"

namespace detforge {

/// How the weights of one layer start. Biases start at `bias` (0 if not said otherwise).
struct WeightInit {
  enum class Kind {
    kXavier,  ///< c2_xavier_fill: uniform in +-sqrt(3 / fan_in)
    kMsra,    ///< c2_msra_fill: normal, std sqrt(2 / ((1 + leaky_slope^2) fan_out))
    kNormal,  ///< normal with `std`
  };
  Kind kind = Kind::kXavier;
  double std = 0.01;         ///< only for kNormal
  double leaky_slope = 0.0;  ///< only for kMsra: of the activation behind
  double bias = 0.0;
};

/// A layer that knows how its weights start.
class Initializable {
 public:
  virtual ~Initializable() = default;
  /// Fills parameters; `key` names the random stream (same key, same weights).
  virtual void initialize(std::uint64_t key) = 0;
};

/// Fills `weight` [Out,In,...] in place; fan_in = In * kernel area, fan_out = Out * kernel area.
/// Value i is a function of (init, shape, key, i) only: any machine, any number of threads gives
/// the same weights. Ref: He et al., arXiv:1502.01852; Detectron2's c2_msra_fill and c2_xavier_fill
/// (fvcore).
void fill_weight_(Tensor weight, const WeightInit& init, std::uint64_t key);

/// Initializes every Initializable layer below `root`, keyed by (seed, the layer's name), so that
/// adding a layer does not change the others.
void initialize_weights(torch::nn::Module& root, std::uint64_t seed);

}  // namespace detforge
