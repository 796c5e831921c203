#include "detforge/ops/conv2d.h"

#include <string>

#include <torch/types.h>

#include "detforge/core/error.h"
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

/// `macs_per_output`: multiply-adds behind each output value. Without autograd there is no
/// backward to come.
void meter(const Tensor& output,
           std::int64_t macs_per_output,
           const Tensor& input,
           const Tensor& weight) {
  const bool tracked = at::GradMode::is_enabled();
  WorkMeter::add(
      {.macs = static_cast<double>(output.numel()) * static_cast<double>(macs_per_output),
       .output_bytes = static_cast<double>(output.nbytes()),
       .trains_weight = tracked && weight.requires_grad(),
       .needs_input_gradient = tracked && input.requires_grad()});
}

std::int64_t conv_size(std::int64_t size,
                       std::int64_t kernel,
                       const Conv2dOptions& o,
                       std::size_t axis) {
  return (size + 2 * o.padding[axis] - o.dilation[axis] * (kernel - 1) - 1) / o.stride[axis] + 1;
}

std::int64_t transposed_size(std::int64_t size,
                             std::int64_t kernel,
                             const Conv2dOptions& o,
                             std::size_t axis) {
  return (size - 1) * o.stride[axis] - 2 * o.padding[axis] + o.dilation[axis] * (kernel - 1) + 1;
}

}  // namespace

Tensor activate_(Tensor output, Activation activation, double leaky_slope) {
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

Tensor conv2d(const Tensor& input,
              const Tensor& weight,
              const Tensor& bias,
              const Conv2dOptions& options,
              const Tensor& residual) {
  check_conv(input, weight, weight.dim() == 4 ? weight.size(1) * options.groups : 0);
  Tensor output;
  if (input.size(0) == 0) {
    output = empty_result({0, weight.size(0), conv_size(input.size(2), weight.size(2), options, 0),
                           conv_size(input.size(3), weight.size(3), options, 1)},
                          input, weight, bias);
  } else {
    output = at::conv2d(input, weight, bias, options.stride, options.padding, options.dilation,
                        options.groups);
  }
  meter(output, weight[0].numel(), input, weight);
  if (residual.defined()) {
    DETFORGE_CHECK(residual.sizes() == output.sizes(),
                   "the residual and the convolution's output differ in shape",
                   "the shortcut must have the stride and channels of the block");
    output.add_(residual);
  }
  return activate_(output, options.activation, options.leaky_slope);
}

Tensor conv_transpose2d(const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Conv2dOptions& options) {
  check_conv(input, weight, weight.dim() == 4 ? weight.size(0) : 0);
  Tensor output;
  if (input.size(0) == 0) {
    output = empty_result({0, weight.size(1) * options.groups,
                           transposed_size(input.size(2), weight.size(2), options, 0),
                           transposed_size(input.size(3), weight.size(3), options, 1)},
                          input, weight, bias);
  } else {
    output = at::conv_transpose2d(input, weight, bias, options.stride, options.padding, {0, 0},
                                  options.groups, options.dilation);
  }
  // Each input value meets weight.size(1) * kernel area weights.
  meter(output, output.numel() == 0 ? 0 : input.numel() * weight[0].numel() / output.numel(), input,
        weight);
  return activate_(output, options.activation, options.leaky_slope);
}

Tensor linear(const Tensor& input,
              const Tensor& weight,
              const Tensor& bias,
              Activation activation) {
  DETFORGE_CHECK(input.dim() == 2 && weight.dim() == 2 && input.size(1) == weight.size(1),
                 "linear needs input [N,In] and weight [Out,In] of the same In",
                 "flatten the features, and check that the layer was made for them");
  Tensor output = at::linear(input, weight, bias);
  meter(output, weight.size(1), input, weight);
  return activate_(std::move(output), activation, 0.0);
}

}  // namespace detforge
