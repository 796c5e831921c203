#pragma once

#include <cstdint>
#include <vector>

#include "detforge/distributed/communicator.h"

namespace detforge {

/// A sum over ranks of which only a low-rank part is sent: each matrix M (a weight [N, ...] as N
/// rows) travels as P = orthonormal(M Q) and M^T P, with a few columns each; Q is the last step's
/// M^T P. What the product lacks is kept and added to the next step's gradient. Vectors, and
/// matrices too small to gain, travel whole. Ref: Vogels, Karimireddy, Jaggi, PowerSGD,
/// arXiv:1905.13727, algorithm 1.
class PowerSgdSum {
 public:
  /// `shapes` of the tensors that lie one behind the other in the flat one.
  PowerSgdSum(const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t rank);
  /// In place; flat f32. `loss_scale` is what it was multiplied by. Returns the bytes of what was
  /// summed.
  std::int64_t all_reduce_(Communicator& communicator, Tensor& flat, double loss_scale);

 private:
  struct Matrix {
    std::int64_t begin, rows, columns;
    Tensor q;  ///< [columns, rank]
    Tensor of(const Tensor& flat) const {
      return flat.narrow(0, begin, rows * columns).view({rows, columns});
    }
  };
  struct Whole {
    std::int64_t begin, size;
  };
  std::vector<Matrix> matrices_;
  std::vector<Whole> wholes_;
  Tensor error_;  ///< of the true gradient: without the loss scale
};

}  // namespace detforge
