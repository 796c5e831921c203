#include "detforge/ops/cpu/conv_passes.h"

#include <algorithm>
#include <cassert>

#include "detforge/ops/cpu/conv_gemm.h"
#include "detforge/ops/cpu/winograd.h"

namespace detforge::cpu {
namespace {

MapShape input_map(const ConvShape& s) {
  return {s.images, s.input[0], s.input[1], s.in_channels};
}

MapShape output_map(const ConvShape& s) {
  return {s.images, s.output(0), s.output(1), s.out_channels};
}

std::vector<ConvTap> forward_taps(const ConvShape& s) {
  std::vector<ConvTap> taps;
  for (std::int64_t ky = 0; ky < s.kernel[0]; ++ky) {
    for (std::int64_t kx = 0; kx < s.kernel[1]; ++kx) {
      taps.push_back({.dy = ky * s.dilation[0] - s.padding[0],
                      .dx = kx * s.dilation[1] - s.padding[1],
                      .weight_offset = ky * s.kernel[1] + kx});
    }
  }
  return taps;
}

PixelRows::Grid forward_grid(const ConvShape& s) {
  return {
      .height = s.output(0), .width = s.output(1), .step_y = s.stride[0], .step_x = s.stride[1]};
}

/// One axis of the taps that reach input pixels with remainder `part` modulo the stride.
struct AxisTap {
  std::int64_t position, shift;  ///< in the kernel; in output pixels
};

/// Input pixel part + stride * u meets tap k in output pixel u + shift if stride divides
/// part + padding - k * dilation. By rising shift.
std::vector<AxisTap> backward_axis(const ConvShape& s, std::size_t axis, std::int64_t part) {
  std::vector<AxisTap> taps;
  for (std::int64_t k = s.kernel[axis] - 1; k >= 0; --k) {
    const std::int64_t distance = part + s.padding[axis] - k * s.dilation[axis];
    if (distance % s.stride[axis] == 0) {
      taps.push_back({k, distance / s.stride[axis]});
    }
  }
  return taps;
}

/// One of stride x stride interleaved parts of the input's gradient: a convolution of its own.
GemmConv backward_part(const ConvShape& s, std::int64_t part_y, std::int64_t part_x) {
  GemmConv conv;
  conv.shape = output_map(s);
  for (const AxisTap& y : backward_axis(s, 0, part_y)) {
    for (const AxisTap& x : backward_axis(s, 1, part_x)) {
      conv.taps.push_back({y.shift, x.shift, y.position * s.kernel[1] + x.position});
    }
  }
  conv.grid = {.height = (s.input[0] - part_y + s.stride[0] - 1) / s.stride[0],
               .width = (s.input[1] - part_x + s.stride[1] - 1) / s.stride[1]};
  conv.output = {.height = s.input[0],
                 .width = s.input[1],
                 .channels = s.in_channels,
                 .first_y = part_y,
                 .first_x = part_x,
                 .step_y = s.stride[0],
                 .step_x = s.stride[1]};
  return conv;
}

}  // namespace

void conv_forward(const ConvKernels& kernels,
                  const ConvShape& s,
                  ConvAlgorithm algorithm,
                  const ConstMap& input,
                  const float* weight,
                  const Epilogue& epilogue,
                  const Map& output,
                  const Workspace& workspace) {
  assert(algorithm != ConvAlgorithm::kAten && s.groups == 1);
  const std::int64_t taps = s.kernel[0] * s.kernel[1];
  if (algorithm == ConvAlgorithm::kWinograd) {
    winograd_convolution(
        kernels,
        {.input = input,
         .shape = input_map(s),
         .filters = {.data = weight, .output_stride = taps * s.in_channels, .input_stride = taps},
         .outputs = s.out_channels,
         .epilogue = epilogue,
         .output = output},
        workspace);
    return;
  }
  gemm_convolution(
      kernels,
      {.input = input,
       .shape = input_map(s),
       .taps = forward_taps(s),
       .grid = forward_grid(s),
       .weights = {.data = weight, .input_stride = taps, .output_stride = taps * s.in_channels},
       .epilogue = epilogue,
       .output = {.data = output,
                  .height = s.output(0),
                  .width = s.output(1),
                  .channels = s.out_channels}},
      workspace);
}

void conv_backward_data(const ConvKernels& kernels,
                        const ConvShape& s,
                        ConvAlgorithm algorithm,
                        const ConstMap& grad_output,
                        const float* weight,
                        const Epilogue& epilogue,
                        const Map& grad_input,
                        const Workspace& workspace) {
  assert(algorithm != ConvAlgorithm::kAten && s.groups == 1);
  const std::int64_t taps = s.kernel[0] * s.kernel[1];
  if (algorithm == ConvAlgorithm::kWinograd) {
    winograd_convolution(kernels,
                         {.input = grad_output,
                          .shape = output_map(s),
                          .filters = {.data = weight,
                                      .output_stride = taps,
                                      .input_stride = taps * s.in_channels,
                                      .flipped = true},
                          .outputs = s.in_channels,
                          .epilogue = epilogue,
                          .output = grad_input},
                         workspace);
    return;
  }
  for (std::int64_t y = 0; y < std::min(s.stride[0], s.input[0]); ++y) {
    for (std::int64_t x = 0; x < std::min(s.stride[1], s.input[1]); ++x) {
      GemmConv part = backward_part(s, y, x);
      part.input = grad_output;
      part.weights = {.data = weight, .input_stride = taps * s.in_channels, .output_stride = taps};
      part.epilogue = epilogue;
      part.output.data = grad_input;
      gemm_convolution(kernels, part, workspace);
    }
  }
}

void conv_backward_weight(const ConvKernels& kernels,
                          const ConvShape& s,
                          ConvAlgorithm algorithm,
                          const ConstMap& input,
                          const ConstMap& grad_output,
                          float* grad_weight,
                          const Workspace& workspace) {
  assert(algorithm != ConvAlgorithm::kAten && s.groups == 1);
  const std::int64_t taps = s.kernel[0] * s.kernel[1];
  if (algorithm == ConvAlgorithm::kWinograd) {
    winograd_filter_gradient(kernels,
                             {.input = input,
                              .shape = input_map(s),
                              .grad_output = grad_output,
                              .outputs = s.out_channels,
                              .gradient = grad_weight},
                             workspace);
    return;
  }
  gemm_weight_gradient(kernels,
                       {.input = input,
                        .shape = input_map(s),
                        .taps = forward_taps(s),
                        .grid = forward_grid(s),
                        .grad_output = grad_output,
                        .outputs = s.out_channels,
                        .gradient = grad_weight,
                        .input_stride = taps,
                        .output_stride = taps * s.in_channels},
                       workspace);
}

void activation_backward(const ConvKernels& kernels,
                         Activation activation,
                         float leaky_slope,
                         std::int64_t rows,
                         std::int64_t channels,
                         const ConstMap& output,
                         const ConstMap& grad_output,
                         const Map& gradient,
                         float* bias_gradient,
                         const Workspace& workspace) {
  constexpr std::int64_t kBlock = 512;  // rows summed on their own: fixed, so the bits are too
  const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
  float* sums = bias_gradient == nullptr ? nullptr : workspace(blocks * channels);
  const float slope = activation == Activation::kLeakyRelu ? leaky_slope : 0.0F;
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * kBlock, count = std::min(kBlock, rows - first);
    float* sum = sums == nullptr ? nullptr : sums + b * channels;
    if (sum != nullptr) {
      std::fill_n(sum, channels, 0.0F);
    }
    if (activation != Activation::kNone) {
      kernels.activation_gradient({.rows = count,
                                   .channels = channels,
                                   .output = output + first * channels,
                                   .grad_output = grad_output + first * channels,
                                   .slope = slope,
                                   .gradient = gradient + first * channels},
                                  sum);
    } else if (sum != nullptr) {
      kernels.add_rows(grad_output + first * channels, count, channels, sum);
    }
  }
  if (bias_gradient != nullptr) {
    std::fill_n(bias_gradient, channels, 0.0F);
    kernels.add_rows(sums, blocks, channels, bias_gradient);
  }
}

}  // namespace detforge::cpu
