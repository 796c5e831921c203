#include "detforge/distributed/power_sgd.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>

#include "detforge/core/rng.h"

namespace detforge {
namespace {

/// Random directions, the same on all ranks.
Tensor first_directions(std::int64_t columns, std::int64_t rank, std::uint64_t number) {
  Rng rng(0, RngPurpose::kInit, number);
  Tensor q = torch::empty({columns, rank});
  for (std::int64_t i = 0; i < q.numel(); ++i) {
    q.data_ptr<float>()[i] = static_cast<float>(rng.normal());
  }
  return q;
}

Tensor orthonormal(const Tensor& columns) {
  return std::get<0>(torch::linalg_qr(columns));
}

/// Consecutive pieces of a message.
class Pieces {
 public:
  explicit Pieces(const Tensor& message) : message_(message) {}
  Tensor next(at::IntArrayRef shape) {
    const std::int64_t size = c10::multiply_integers(shape);
    begin_ += size;
    return message_.narrow(0, begin_ - size, size).view(shape);
  }

 private:
  const Tensor& message_;
  std::int64_t begin_ = 0;
};

}  // namespace

PowerSgdSum::PowerSgdSum(const std::vector<std::vector<std::int64_t>>& shapes, std::int64_t rank) {
  std::int64_t begin = 0;
  for (const std::vector<std::int64_t>& shape : shapes) {
    const std::int64_t size = c10::multiply_integers(shape);
    const std::int64_t rows = shape.empty() ? 1 : shape.front();
    const std::int64_t columns = size / std::max<std::int64_t>(rows, 1);
    if (2 * rank * (rows + columns) < size) {
      matrices_.push_back({begin, rows, columns,
                           first_directions(columns, rank, static_cast<std::uint64_t>(begin))});
    } else {
      wholes_.push_back({begin, size});
    }
    begin += size;
  }
  error_ = torch::zeros({begin});
}

std::int64_t PowerSgdSum::all_reduce_(Communicator& communicator, Tensor& flat, double loss_scale) {
  const Tensor sent = flat + error_ * loss_scale;
  std::vector<Tensor> pieces;
  for (const Matrix& matrix : matrices_) {
    pieces.push_back(matrix.of(sent).matmul(matrix.q).view({-1}));
  }
  for (const Whole& whole : wholes_) {
    pieces.push_back(sent.narrow(0, whole.begin, whole.size));
  }
  Tensor first = torch::cat(pieces);
  communicator.all_reduce_sum_(first);
  if (!first.isfinite().all().item<bool>()) {
    flat.fill_(std::nan(""));  // on all ranks: the step is skipped, and the error stays
    return first.nbytes();
  }
  Pieces sums(first);
  std::vector<Tensor> bases, own, flat_own;
  for (const Matrix& matrix : matrices_) {
    bases.push_back(orthonormal(sums.next({matrix.rows, matrix.q.size(1)})));
    own.push_back(matrix.of(sent).t().matmul(bases.back()));
    flat_own.push_back(own.back().reshape({-1}));
  }
  for (const Whole& whole : wholes_) {
    flat.narrow(0, whole.begin, whole.size).copy_(sums.next({whole.size}));
    error_.narrow(0, whole.begin, whole.size).zero_();
  }
  if (matrices_.empty()) {
    return first.nbytes();
  }
  Tensor second = torch::cat(flat_own);
  communicator.all_reduce_sum_(second);
  Pieces directions(second);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    Matrix& matrix = matrices_[i];
    matrix.q = directions.next(matrix.q.sizes()).clone();
    matrix.of(flat).copy_(bases[i].matmul(matrix.q.t()));
    matrix.of(error_).copy_((matrix.of(sent) - bases[i].matmul(own[i].t())) / loss_scale);
  }
  return static_cast<std::int64_t>(first.nbytes() + second.nbytes());
}

}  // namespace detforge
