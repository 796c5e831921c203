#include "detforge/ops/pixel_dot.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/conversion_log.h"
#include "detforge/ops/cpu/pixel_dot_kernel.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::PixelDotShape shape_of(const Tensor& map) {
  return {.images = map.size(0), .pixels = map.size(2) * map.size(3), .channels = map.size(1)};
}

/// Channels-last maps only.
class PixelDotFunction : public torch::autograd::Function<PixelDotFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& map, const Tensor& vectors) {
    ctx->save_for_backward({map, vectors});
    Tensor dots =
        at::empty({map.size(0), map.size(2), map.size(3)}, map.options().dtype(at::kFloat));
    cpu::pixel_dot_forward(shape_of(map), const_map(map), vectors.data_ptr<float>(),
                           dots.data_ptr<float>());
    return dots;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &map = saved[0], &vectors = saved[1];
    const Tensor grad_dots = grads[0].contiguous();
    Tensor grad_map;
    if (map.requires_grad()) {
      grad_map = at::empty(map.sizes(), map.options(), at::MemoryFormat::ChannelsLast);
    }
    Tensor grad_vectors = at::empty(vectors.sizes(), vectors.options());
    cpu::pixel_dot_backward(shape_of(map), const_map(map), vectors.data_ptr<float>(),
                            grad_dots.data_ptr<float>(), map_of(grad_map),
                            grad_vectors.data_ptr<float>());
    return {grad_map, grad_vectors};
  }
};

}  // namespace

Tensor pixel_dot(const Tensor& map, const Tensor& vectors) {
  RECORD_FUNCTION("detforge::pixel_dot", {});
  const at::ScalarType type = is_half_type(map.scalar_type()) ? at::kFloat : map.scalar_type();
  DETFORGE_CHECK(map.dim() == 4 && vectors.dim() == 2 && vectors.size(0) == map.size(0) &&
                     vectors.size(1) == map.size(1) && vectors.scalar_type() == type,
                 "pixel_dot needs a map [N,C,H,W] and f32 vectors [N,C]",
                 "pass one vector of as many channels per image");
  if (is_own_map(map)) {
    return PixelDotFunction::apply(map, vectors.contiguous());
  }
  if (is_half_type(map.scalar_type())) {
    ConversionLog::add("pixel_dot");
  }
  return vectors.unsqueeze(1)
      .bmm(widen(map).flatten(2))
      .view({map.size(0), map.size(2), map.size(3)});
}

}  // namespace detforge
