#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// A frozen batch norm: y = (x - running_mean) / sqrt(running_var + eps) * gamma + beta, each
/// tensor [C].
struct FrozenNorm {
  Tensor gamma, beta, running_mean, running_var;
  double eps = 1e-5;
};

/// Weight and bias of a convolution that already contains the norm behind it.
struct FoldedConv {
  Tensor weight;  ///< shape of the convolution's weight
  Tensor bias;    ///< [Cout]
};

/// norm(conv(x, weight) + bias) = conv(x, folded.weight) + folded.bias: no pass over activations is
/// left.
///   weight [Cout,...]    bias [Cout] or undefined
/// Autograd sees the folding, so weight, bias, gamma and beta get the gradients of the unfused
/// form. Throws Error if the norm does not have Cout channels.
FoldedConv fold_frozen_norm(const Tensor& weight, const Tensor& bias, const FrozenNorm& norm);

}  // namespace detforge
