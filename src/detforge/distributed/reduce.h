#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "detforge/distributed/communicator.h"

namespace detforge {

/// A sum over ranks whose order is that of one binary tree, whatever the number of ranks: the sum
/// of what ranks o, o + s, o + 2s, ... hold is T(s, o) = T(2s, o) + T(2s, o + s). If each rank's
/// tensor is itself such a sum of its own terms, the bits are those of one process that holds all
/// of them (TreeSum). In place; flat f32. Sends the tensor twice, as any all-reduce does.
void tree_all_reduce_(Communicator& communicator, Tensor& flat);

/// Adds terms that come one after the other in the order of that tree. Of n terms, push() takes
/// them in the order of order_of(n); holds at most log2(n) + 1 partial sums.
class TreeSum {
 public:
  /// Which of the n terms is pushed when: the leaves of T(1, 0) from left to right.
  static std::vector<std::int64_t> order_of(std::int64_t n);
  explicit TreeSum(std::int64_t n);
  void push(Tensor term);
  /// After all n terms.
  Tensor total() const;

 private:
  std::vector<std::int64_t> merges_;  ///< after each term
  std::size_t pushed_ = 0;
  std::vector<Tensor> partial_;
};

/// How gradients travel.
enum class Compression { kNone, kFp16, kBf16, kPowerSgd };

/// A sum over ranks of what each sends in 16 bits and adds in f32. What rounding loses is kept and
/// added to the next call's tensor (error feedback), so that it is late, not lost. Each rank's row
/// has a power of two of its own (scaled_row.h): f16 neither overflows nor loses small gradients.
/// Ref: Seide et al., 1-Bit Stochastic Gradient Descent, Interspeech 2014 (the feedback).
class CompressedSum {
 public:
  /// kFp16 or kBf16.
  CompressedSum(Compression compression, std::int64_t size);
  /// In place; flat f32 of `size` elements. `loss_scale` is what the tensor was multiplied by.
  void all_reduce_(Communicator& communicator, Tensor& flat, double loss_scale);

 private:
  Compression compression_;
  Tensor error_;  ///< of the true gradient: without the loss scale
};

}  // namespace detforge
