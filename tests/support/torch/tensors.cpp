#include "support/torch/tensors.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge::test {
namespace {

at::ScalarType dtype_of(const std::string& descr) {
  if (descr == "<f4") return at::kFloat;
  if (descr == "<f8") return at::kDouble;
  if (descr == "<i8") return at::kLong;
  if (descr == "<i4") return at::kInt;
  if (descr == "|u1") return at::kByte;
  if (descr == "|b1") return at::kBool;
  throw Error("dtype " + descr + " of a test array is not handled",
              "extend tests/support/torch/tensors.cpp");
}

std::string index_text(std::int64_t flat, at::IntArrayRef shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return fmt::format("[{}]", fmt::join(index, ","));
}

}  // namespace

Tensor to_tensor(const NpyArray& array) {
  Tensor tensor = torch::empty(array.shape, dtype_of(array.dtype));
  if (!array.bytes.empty()) {  // memcpy must not be given the null pointer of an empty tensor
    std::memcpy(tensor.data_ptr(), array.bytes.data(), tensor.nbytes());
  }
  return tensor;
}

testing::AssertionResult expect_close(const Tensor& actual,
                                      const Tensor& expected,
                                      Tolerance tolerance) {
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure()
           << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  const Tensor a = actual.detach().to(torch::kDouble).contiguous();
  const Tensor e = expected.detach().to(torch::kDouble).contiguous();
  const Tensor both_nan = a.isnan().logical_and(e.isnan());
  const Tensor equal = a.eq(e).logical_or(both_nan);
  Tensor excess = (a - e).abs() - (tolerance.atol + tolerance.rtol * e.abs());
  excess = excess.masked_fill(equal, -1.0).nan_to_num(INFINITY, INFINITY, -1.0);
  if (excess.numel() == 0 || excess.max().item<double>() <= 0) {
    return testing::AssertionSuccess();
  }
  const auto worst = excess.flatten().argmax().item<std::int64_t>();
  return testing::AssertionFailure()
         << (excess > 0).sum().item<std::int64_t>() << " of " << a.numel()
         << " values differ; worst at " << index_text(worst, a.sizes()) << ": "
         << a.flatten()[worst].item<double>() << ", expected " << e.flatten()[worst].item<double>()
         << " (rtol " << tolerance.rtol << ", atol " << tolerance.atol << ")";
}

testing::AssertionResult expect_close_l2(const Tensor& actual,
                                         const Tensor& expected,
                                         double limit) {
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure()
           << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  const Tensor a = actual.detach().to(torch::kDouble);
  const Tensor e = expected.detach().to(torch::kDouble);
  const double norm = e.norm().item<double>();
  const double difference = (a - e).norm().item<double>();
  const double relative = norm > 0 ? difference / norm : difference;
  if (relative <= limit) {  // false for NaN
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << "relative L2 difference " << relative << ", limit " << limit;
}

}  // namespace detforge::test
