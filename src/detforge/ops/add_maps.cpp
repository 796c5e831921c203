#include "detforge/ops/add_maps.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/ops/cpu/map_values.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBlock = 2048;  // values whose f32 copies stay in the L1 cache

/// Both have the same strides.
Tensor sum_of(const Tensor& a, const Tensor& b) {
  Tensor sum = at::empty_like(a);
  const cpu::ConstMap left = const_map(a), right = const_map(b);
  const cpu::Map to = map_of(sum);
  at::parallel_for(0, a.numel(), 16 * kBlock, [&](std::int64_t begin, std::int64_t end) {
    float x[kBlock], y[kBlock];
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const std::int64_t count = std::min(kBlock, end - i);
      cpu::conv_kernels()->load_values(left + i, count, x);
      cpu::conv_kernels()->load_values(right + i, count, y);
      for (std::int64_t j = 0; j < count; ++j) {
        x[j] += y[j];
      }
      cpu::conv_kernels()->store_values(x, count, to + i);
    }
  });
  return sum;
}

class AddFunction : public torch::autograd::Function<AddFunction> {
 public:
  static Tensor forward(AutogradContext* /*ctx*/, const Tensor& a, const Tensor& b) {
    return sum_of(a, b);
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {grads[0], grads[0]};
  }
};

}  // namespace

Tensor add_maps(const Tensor& a, const Tensor& b) {
  RECORD_FUNCTION("detforge::add_maps", {});
  const bool is_own = is_half_type(a.scalar_type()) && b.scalar_type() == a.scalar_type() &&
                      has_own_conversions(a) && b.strides() == a.strides() &&
                      b.sizes() == a.sizes();
  return is_own ? AddFunction::apply(a, b) : a + b;
}

}  // namespace detforge
