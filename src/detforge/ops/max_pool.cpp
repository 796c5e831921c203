#include "detforge/ops/max_pool.h"

#include <string>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/max_pool_kernel.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLargestKernel = 15;  // its positions fit into a byte

std::int64_t windows(std::int64_t size, const MaxPoolOptions& o) {
  return (size + 2 * o.padding - o.kernel) / o.stride + 1;
}

cpu::MaxPoolShape make_shape(at::IntArrayRef input, const MaxPoolOptions& o) {
  return {.images = input[0],
          .channels = input[1],
          .height = input[2],
          .width = input[3],
          .out_height = windows(input[2], o),
          .out_width = windows(input[3], o),
          .kernel = o.kernel,
          .stride = o.stride,
          .padding = o.padding,
          .relu = o.relu};
}

Tensor empty_output(const Tensor& input, const cpu::MaxPoolShape& s, at::ScalarType type) {
  return at::empty({s.images, s.channels, s.out_height, s.out_width}, input.options().dtype(type),
                   at::MemoryFormat::ChannelsLast);
}

/// Channels-last maps only. Keeps the positions of the highest values.
class MaxPoolFunction : public torch::autograd::Function<MaxPoolFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const MaxPoolOptions& options) {
    const cpu::MaxPoolShape shape = make_shape(input.sizes(), options);
    Tensor output = empty_output(input, shape, input.scalar_type());
    Tensor positions = empty_output(input, shape, at::kByte);
    cpu::max_pool_forward(shape, const_map(input), map_of(output),
                          positions.data_ptr<std::uint8_t>());
    ctx->save_for_backward({positions});
    ctx->saved_data["input"] = input.sizes();
    ctx->saved_data["kernel"] = options.kernel;
    ctx->saved_data["stride"] = options.stride;
    ctx->saved_data["padding"] = options.padding;
    return output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Tensor positions = ctx->get_saved_variables()[0];
    const std::vector<std::int64_t> input = ctx->saved_data["input"].toIntVector();
    const MaxPoolOptions options{.kernel = ctx->saved_data["kernel"].toInt(),
                                 .stride = ctx->saved_data["stride"].toInt(),
                                 .padding = ctx->saved_data["padding"].toInt()};
    const Tensor grad = grads[0].contiguous(at::MemoryFormat::ChannelsLast);
    Tensor grad_input = at::empty(input, grad.options(), at::MemoryFormat::ChannelsLast);
    cpu::max_pool_backward(make_shape(input, options), const_map(grad),
                           positions.data_ptr<std::uint8_t>(), map_of(grad_input));
    return {grad_input, Tensor()};
  }
};

Tensor pool_without_gradient(const Tensor& input, const MaxPoolOptions& options) {
  const cpu::MaxPoolShape shape = make_shape(input.sizes(), options);
  Tensor output = empty_output(input, shape, input.scalar_type());
  cpu::max_pool_forward(shape, const_map(input), map_of(output), nullptr);
  return output;
}

void check(const Tensor& input, const MaxPoolOptions& o) {
  DETFORGE_CHECK(input.dim() == 4, "max_pool needs a map [N,C,H,W]", "add the missing dimensions");
  DETFORGE_CHECK(o.kernel >= 1 && o.stride >= 1 && o.padding >= 0 && 2 * o.padding <= o.kernel,
                 "max_pool of kernel " + std::to_string(o.kernel) + ", stride " +
                     std::to_string(o.stride) + " and padding " + std::to_string(o.padding) +
                     " is not possible",
                 "use positive kernels and strides, and at most half a kernel of padding");
  DETFORGE_CHECK(
      input.size(2) + 2 * o.padding >= o.kernel && input.size(3) + 2 * o.padding >= o.kernel,
      "a map of " + std::to_string(input.size(2)) + " x " + std::to_string(input.size(3)) +
          " has no window of " + std::to_string(o.kernel),
      "enlarge or pad the image");
}

}  // namespace

Tensor max_pool(const Tensor& input, const MaxPoolOptions& options) {
  RECORD_FUNCTION("detforge::max_pool", {});
  check(input, options);
  if (is_own_map(input) && options.kernel <= kLargestKernel) {
    return at::GradMode::is_enabled() && input.requires_grad()
               ? MaxPoolFunction::apply(input, options)
               : pool_without_gradient(input, options);
  }
  if (is_half_type(input.scalar_type())) {
    return in_f32("max_pool", input, [&](const Tensor& map) { return max_pool(map, options); });
  }
  Tensor output = at::max_pool2d(input, options.kernel, options.stride, options.padding);
  return options.relu ? output.relu_() : output;  // pooling's backward does not read its output
}

}  // namespace detforge
