#include "detforge/distributed/reduce.h"

#include <cmath>
#include <utility>

#include <torch/types.h>

namespace detforge {
namespace {

/// `flat` as rows, one for each rank; zeros at the end.
Tensor rows_of(const Tensor& flat, std::int64_t ranks) {
  const std::int64_t columns = (flat.numel() + ranks - 1) / ranks;
  return torch::constant_pad_nd(flat, {0, ranks * columns - flat.numel()}).view({ranks, columns});
}

Tensor tree_of_rows(const Tensor& rows, std::int64_t stride, std::int64_t offset) {
  if (offset + stride >= rows.size(0)) {
    return rows[offset];
  }
  return tree_of_rows(rows, 2 * stride, offset) + tree_of_rows(rows, 2 * stride, offset + stride);
}

void append_leaves(std::int64_t n,
                   std::int64_t stride,
                   std::int64_t offset,
                   std::vector<std::int64_t>& order,
                   std::vector<std::int64_t>& merges) {
  if (offset + stride >= n) {
    order.push_back(offset);
    merges.push_back(0);
    return;
  }
  append_leaves(n, 2 * stride, offset, order, merges);
  append_leaves(n, 2 * stride, offset + stride, order, merges);
  ++merges.back();
}

at::ScalarType type_of(Compression compression) {
  return compression == Compression::kBf16 ? at::kBFloat16 : at::kHalf;
}

/// Rows of 16-bit numbers, as 16-bit integers, each behind the two of its f32 scale.
Tensor pack(const Tensor& rows, at::ScalarType type, Tensor& rounded) {
  // Powers of two, so that scaling is exact; the largest number becomes 2^13 to 2^14.
  Tensor scale = torch::exp2(13 - torch::floor(torch::log2(rows.abs().amax({1}, true))));
  scale = torch::where(scale.isfinite().logical_and(scale > 0), scale, torch::ones_like(scale));
  const Tensor half = (rows * scale).to(type);
  rounded = half.to(at::kFloat) / scale;
  return torch::cat({scale.view(at::kShort), half.view(at::kShort)}, 1);
}

Tensor unpack(const Tensor& packed, at::ScalarType type) {
  const Tensor scale = packed.slice(1, 0, 2).contiguous().view(at::kFloat);
  return packed.slice(1, 2).contiguous().view(type).to(at::kFloat) / scale;
}

}  // namespace

void tree_all_reduce_(Communicator& communicator, Tensor& flat) {
  const Tensor parts = communicator.all_to_all(rows_of(flat, communicator.world_size()));
  const Tensor own = tree_of_rows(parts, 1, 0);
  flat.copy_(communicator.all_gather(own).view({-1}).slice(0, 0, flat.numel()));
}

std::vector<std::int64_t> TreeSum::order_of(std::int64_t n) {
  std::vector<std::int64_t> order, merges;
  append_leaves(n, 1, 0, order, merges);
  return order;
}

TreeSum::TreeSum(std::int64_t n) {
  std::vector<std::int64_t> order;
  append_leaves(n, 1, 0, order, merges_);
}

void TreeSum::push(Tensor term) {
  partial_.push_back(std::move(term));
  for (std::int64_t i = merges_.at(pushed_++); i > 0; --i) {
    const Tensor right = partial_.back();
    partial_.pop_back();
    partial_.back() = partial_.back() + right;
  }
}

Tensor TreeSum::total() const {
  return partial_.at(0);
}

CompressedSum::CompressedSum(Compression compression, std::int64_t size)
    : compression_(compression), error_(torch::zeros({size})) {}

void CompressedSum::all_reduce_(Communicator& communicator, Tensor& flat, double loss_scale) {
  const at::ScalarType type = type_of(compression_);
  const std::int64_t size = flat.numel(), ranks = communicator.world_size();
  const Tensor sent = flat + error_ * loss_scale;
  Tensor rounded;
  const Tensor rows = rows_of(sent, ranks);
  const Tensor own =
      unpack(communicator.all_to_all(pack(rows, type, rounded)), type).sum(0, /*keepdim=*/true);
  Tensor lost = rows - rounded;
  const Tensor sums = communicator.all_gather(pack(own, type, rounded).view({-1}));
  lost[communicator.rank()] += (own - rounded)[0];  // of the sum: its owner makes good for it
  flat.copy_(unpack(sums, type).view({-1}).slice(0, 0, size));
  if (flat.isfinite().all().item<bool>()) {  // else the step is skipped, on all ranks
    error_.copy_(lost.view({-1}).slice(0, 0, size) / loss_scale);
  }
}

}  // namespace detforge
