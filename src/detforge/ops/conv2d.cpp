#include "detforge/ops/conv2d.h"

#include <algorithm>
#include <string>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/conv2d_function.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/kernel_backend.h"
#include "detforge/ops/map_type.h"
#include "detforge/ops/pixel_dot.h"
#include "detforge/ops/work_meter.h"

namespace detforge {
namespace {

void check_conv(const Tensor& input, const Tensor& weight, std::int64_t weight_in_channels) {
  DETFORGE_CHECK(input.dim() == 4 && weight.dim() == 4,
                 "a convolution needs input [N,C,H,W] and a weight of 4 dimensions, got " +
                     std::to_string(input.dim()) + " and " + std::to_string(weight.dim()),
                 "add the missing dimensions");
  DETFORGE_CHECK(input.size(1) == weight_in_channels,
                 "the input has " + std::to_string(input.size(1)) +
                     " channels, the weight expects " + std::to_string(weight_in_channels),
                 "check that the layers before this one are those that the weights were made for");
}

void check_arguments(const Conv2dOptions& o, const Tensor& bias, std::int64_t outputs) {
  const auto at_least = [](const std::array<std::int64_t, 2>& values, std::int64_t bound) {
    return values[0] >= bound && values[1] >= bound;
  };
  DETFORGE_CHECK(at_least(o.stride, 1) && at_least(o.dilation, 1) && at_least(o.padding, 0) &&
                     o.groups > 0 && o.leaky_slope >= 0,
                 "a convolution's stride, dilation or groups is below 1, or its padding or leaky "
                 "slope is negative",
                 "correct the layer's options");
  DETFORGE_CHECK(
      !bias.defined() || (bias.dim() == 1 && bias.size(0) == outputs),
      "a bias does not have one value for each of the " + std::to_string(outputs) + " outputs",
      "check that it belongs to this layer");
}

void check_window(const cpu::ConvShape& s) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    DETFORGE_CHECK(s.input[axis] + 2 * s.padding[axis] > s.dilation[axis] * (s.kernel[axis] - 1),
                   "a kernel of " + std::to_string(s.kernel[axis]) + " does not fit on a map of " +
                       std::to_string(s.input[axis]) + " pixels with a padding of " +
                       std::to_string(s.padding[axis]),
                   "the image is too small for this network: enlarge or pad it");
  }
}

/// A result without elements through which every argument still gets its (zero) gradient: oneDNN's
/// convolutions of LibTorch 1.13 do not define N = 0.
Tensor empty_result(at::IntArrayRef shape,
                    const Tensor& input,
                    const Tensor& weight,
                    const Tensor& bias) {
  const Tensor dependencies =
      input.sum() + weight.sum() +
      (bias.defined() ? bias.sum() : Tensor(torch::zeros({}, input.options())));
  return torch::zeros(shape, input.options()) + dependencies;
}

/// [N,In] as [N,In,1,1].
std::array<std::int64_t, 4> four_sizes(const Tensor& tensor) {
  std::array<std::int64_t, 4> sizes{1, 1, 1, 1};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), sizes.begin());
  return sizes;
}

/// `macs_per_output`: multiply-adds behind each output value. Without autograd there is no
/// backward to come.
void meter(LayerKind kind,
           const Tensor& output,
           std::int64_t macs_per_output,
           const Tensor& input,
           const Tensor& weight,
           const Conv2dOptions& options = {}) {
  const bool tracked = at::GradMode::is_enabled();
  WorkMeter::add(
      {.kind = kind,
       .input = four_sizes(input),
       .weight = four_sizes(weight),
       .stride = options.stride,
       .padding = options.padding,
       .dilation = options.dilation,
       .groups = options.groups},
      {.macs = static_cast<double>(output.numel()) * static_cast<double>(macs_per_output),
       .output_bytes = static_cast<double>(output.nbytes()),
       .trains_weight = tracked && weight.requires_grad(),
       .needs_input_gradient = tracked && input.requires_grad()});
}

bool use_own_kernels(const Tensor& input, const cpu::ConvShape& shape) {
  return kernel_backend() == KernelBackend::kOwn && has_own_kernels(input, cpu::plan_conv(shape));
}

/// Residual and activation in place on what LibTorch computed.
Tensor finish(Tensor output, const Conv2dOptions& options, const Tensor& residual = {}) {
  return add_and_activate_(std::move(output), residual, options.activation, options.leaky_slope);
}

/// True if the windows of a transposed convolution lie side by side, without overlap or gap.
bool makes_tiles(const Tensor& weight, const Conv2dOptions& o) {
  using Pair = std::array<std::int64_t, 2>;
  const std::int64_t side = weight.size(2);
  return weight.size(3) == side && o.stride == Pair{side, side} && o.padding == Pair{0, 0} &&
         o.dilation == Pair{1, 1} && o.groups == 1;
}

/// Each input pixel becomes a tile of its own: a 1x1 convolution to the tile's values, which are
/// then put side by side. LibTorch's own way is a matrix product for one image after the other.
Tensor transpose_to_tiles(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const std::int64_t side = weight.size(2);
  const Tensor tile_weight = weight.flatten(1).t().contiguous().unsqueeze(2).unsqueeze(3);
  const Tensor tile_bias = bias.defined() ? bias.repeat_interleave(side * side) : bias;
  return at::pixel_shuffle(at::conv2d(input, tile_weight, tile_bias), side);
}

/// conv2d and, if `returns_input`, conv2d_and_input; else the result has no input.
ConvAndInput checked_conv2d(const Tensor& input,
                            const Tensor& weight,
                            const Tensor& bias,
                            const Conv2dOptions& options,
                            const Tensor& residual,
                            bool returns_input) {
  check_conv(input, weight, weight.dim() == 4 ? weight.size(1) * options.groups : 0);
  check_arguments(options, bias, weight.size(0));
  const cpu::ConvShape shape = conv_shape(input, weight, options);
  const std::array<std::int64_t, 4> output_sizes{shape.images, shape.out_channels, shape.output(0),
                                                 shape.output(1)};
  check_window(shape);
  DETFORGE_CHECK(!residual.defined() || (residual.sizes() == at::IntArrayRef(output_sizes) &&
                                         residual.scalar_type() == input.scalar_type()),
                 "the residual and the convolution's output differ in shape or type",
                 "the shortcut must have the stride and channels of the block");
  ConvAndInput result{.output = {}, .input = returns_input ? input : Tensor()};
  if (input.size(0) == 0 || weight.size(0) == 0) {
    result.output = in_f32("conv2d", input, [&](const Tensor& map) {
      return finish(empty_result(output_sizes, map, widen(weight), widen(bias)), options,
                    widen(residual));
    });
  } else if (!use_own_kernels(input, shape)) {
    result.output = in_f32("conv2d", input, [&](const Tensor& map) {
      return finish(at::conv2d(map.contiguous(), widen(weight), widen(bias), options.stride,
                               options.padding, options.dilation, options.groups),
                    options, widen(residual));
    });
  } else {
    result = own_conv2d(input, weight, bias, options, residual, returns_input);
  }
  meter(LayerKind::kConv, result.output, weight[0].numel(), input, weight, options);
  return result;
}

}  // namespace

Tensor activate_(Tensor output, Activation activation, double leaky_slope) {
  if (activation != Activation::kNone && is_half_type(output.scalar_type())) {
    return in_f32("activation", output,
                  [&](const Tensor& map) { return activate_(map, activation, leaky_slope); });
  }
  switch (activation) {
    case Activation::kNone:
      return output;
    case Activation::kRelu:
      return output.relu_();
    case Activation::kLeakyRelu:
      return at::leaky_relu_(output, leaky_slope);
  }
  throw Error("unknown activation", "use one of enum Activation");
}

Tensor add_and_activate_(Tensor output,
                         const Tensor& residual,
                         Activation activation,
                         double leaky_slope) {
  if (!residual.defined()) {
    return activate_(std::move(output), activation, leaky_slope);
  }
  return in_f32("residual", output, [&](Tensor map) {
    return activate_(map.add_(widen(residual)), activation, leaky_slope);
  });
}

Tensor conv2d(const Tensor& input,
              const Tensor& weight,
              const Tensor& bias,
              const Conv2dOptions& options,
              const Tensor& residual) {
  return checked_conv2d(input, weight, bias, options, residual, /*returns_input=*/false).output;
}

ConvAndInput conv2d_and_input(const Tensor& input,
                              const Tensor& weight,
                              const Tensor& bias,
                              const Conv2dOptions& options) {
  return checked_conv2d(input, weight, bias, options, {}, /*returns_input=*/true);
}

Tensor conv_transpose2d(const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Conv2dOptions& options) {
  check_conv(input, weight, weight.dim() == 4 ? weight.size(0) : 0);
  check_arguments(options, bias, weight.size(1) * options.groups);
  const cpu::ConvShape shape = transposed_conv_shape(input, weight, options);
  DETFORGE_CHECK(shape.input[0] > 0 && shape.input[1] > 0,
                 "a transposed convolution's padding leaves nothing of its output",
                 "correct the layer's options");
  Tensor output;
  if (input.size(0) == 0) {
    output = in_f32("conv_transpose2d", input, [&](const Tensor& map) {
      return finish(empty_result({0, shape.in_channels, shape.input[0], shape.input[1]}, map,
                                 widen(weight), widen(bias)),
                    options);
    });
  } else if (use_own_kernels(input, shape)) {
    output = own_conv_transpose2d(input, weight, bias, options);
  } else if (makes_tiles(weight, options)) {
    output = in_f32("conv_transpose2d", input, [&](const Tensor& map) {
      return finish(transpose_to_tiles(map.contiguous(), widen(weight), widen(bias)), options);
    });
  } else {
    output = in_f32("conv_transpose2d", input, [&](const Tensor& map) {
      return finish(
          at::conv_transpose2d(map.contiguous(), widen(weight), widen(bias), options.stride,
                               options.padding, {0, 0}, options.groups, options.dilation),
          options);
    });
  }
  // Each input value meets weight.size(1) * kernel area weights.
  meter(LayerKind::kConvTranspose, output,
        output.numel() == 0 ? 0 : input.numel() * weight[0].numel() / output.numel(), input, weight,
        options);
  return output;
}

Tensor conv1x1_at_channel(const Tensor& input,
                          const Tensor& weight,
                          const Tensor& bias,
                          const Tensor& channel) {
  check_conv(input, weight, weight.dim() == 4 ? weight.size(1) : 0);
  DETFORGE_CHECK(weight.size(2) == 1 && weight.size(3) == 1 && bias.defined() &&
                     channel.dim() == 1 && channel.size(0) == input.size(0),
                 "conv1x1_at_channel needs a weight [K,C,1,1], a bias and one channel per image",
                 "use conv2d for other convolutions");
  const Tensor offsets = widen(bias).index_select(0, channel).view({-1, 1, 1});
  const Tensor output =
      pixel_dot(input, widen(weight).flatten(1).index_select(0, channel)) + offsets;
  meter(LayerKind::kConvAtChannel, output, weight.size(1), input, weight);
  return output;
}

Tensor linear(const Tensor& input,
              const Tensor& weight,
              const Tensor& bias,
              Activation activation) {
  DETFORGE_CHECK(input.dim() == 2 && weight.dim() == 2 && input.size(1) == weight.size(1),
                 "linear needs input [N,In] and weight [Out,In] of the same In",
                 "flatten the features, and check that the layer was made for them");
  check_arguments({}, bias, weight.size(0));
  const Tensor pixels = input.unsqueeze(2).unsqueeze(3);  // a 1x1 convolution of single pixels
  const Tensor kernels = weight.unsqueeze(2).unsqueeze(3);
  const Conv2dOptions options{.activation = activation};
  if (input.size(0) > 0 && weight.size(0) > 0 &&
      use_own_kernels(input, conv_shape(pixels, kernels, options))) {
    const Tensor output = own_conv2d(pixels, kernels, bias, options, {}).output.flatten(1);
    meter(LayerKind::kLinear, output, weight.size(1), input, weight);
    return output;
  }
  const Tensor output = in_f32("linear", input, [&](const Tensor& rows) {
    return finish(at::linear(rows, widen(weight), widen(bias)), options);
  });
  meter(LayerKind::kLinear, output, weight.size(1), input, weight);
  return output;
}

}  // namespace detforge
