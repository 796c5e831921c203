#pragma once

#include <functional>

#include "detforge/ops/batch_norm.h"

namespace detforge {

/// Replaces a tensor by its sum over all ranks, in place.
using AllReduce = std::function<void(Tensor&)>;

/// batch_norm() by the statistics of the pixels of all ranks: W ranks with parts of a batch give
/// what one rank gives for all of it. A rank may have no pixel at all, but must call it. One
/// `all_reduce` forward and one backward, whatever the data; weight and bias get gradients of this
/// rank's pixels. Sums are f64.
/// Ref: torch.nn.SyncBatchNorm; Ioffe, Szegedy, arXiv:1502.03167, Algorithm 1.
Tensor sync_batch_norm(const Tensor& input,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& running_mean,
                       const Tensor& running_var,
                       const BatchNormOptions& options,
                       const AllReduce& all_reduce,
                       const Tensor& residual = {});

}  // namespace detforge
