#include "detforge/distributed/reduce.h"

#include <algorithm>
#include <utility>

#include <torch/types.h>

#include "detforge/distributed/scaled_row.h"

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
  const cpu::Storage storage =
      compression_ == Compression::kBf16 ? cpu::Storage::kBFloat16 : cpu::Storage::kHalf;
  const std::int64_t size = flat.numel(), ranks = communicator.world_size();
  const std::int64_t columns = (size + ranks - 1) / ranks, words = scaled_row::packed_size(columns);
  // Row i of the tensor is summed by rank i; the last ones may be short or empty.
  const auto begin_of = [&](std::int64_t row) { return std::min(row * columns, size); };
  const auto size_of = [&](std::int64_t row) { return begin_of(row + 1) - begin_of(row); };
  const auto words_of = [](const Tensor& rows, std::int64_t row) {
    return rows[row].data_ptr<std::int16_t>();
  };
  auto* values = flat.data_ptr<float>();

  flat.add_(error_, loss_scale);
  const Tensor parts = torch::zeros({ranks, words}, at::kShort);
  for (std::int64_t row = 0; row < ranks; ++row) {
    scaled_row::pack(values + begin_of(row), size_of(row), storage, words_of(parts, row));
  }
  const Tensor received = communicator.all_to_all(parts);
  const Tensor sum = torch::zeros({columns});
  for (std::int64_t row = 0; row < ranks; ++row) {
    scaled_row::add(words_of(received, row), columns, storage, sum.data_ptr<float>());
  }
  const Tensor own = torch::empty({words}, at::kShort);
  scaled_row::pack(sum.data_ptr<float>(), columns, storage, own.data_ptr<std::int16_t>());
  const Tensor sums = communicator.all_gather(own);

  bool is_finite = true;  // else the step is skipped, on all ranks
  for (std::int64_t row = 0; row < ranks; ++row) {
    is_finite = is_finite && scaled_row::is_finite(words_of(sums, row));
  }
  if (is_finite) {
    // Its owner makes good for what the sum lost.
    const std::int64_t begin = begin_of(communicator.rank()), count = size_of(communicator.rank());
    flat.narrow(0, begin, count).add_(sum.narrow(0, 0, count));
    at::div_out(error_, flat, at::scalar_tensor(loss_scale));
  }
  for (std::int64_t row = 0; row < ranks; ++row) {
    scaled_row::unpack(words_of(sums, row), size_of(row), storage, values + begin_of(row));
  }
}

}  // namespace detforge
