#include "detforge/cli/layer_bench.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/timer.h"
#include "detforge/ops/conv2d.h"

namespace detforge {
namespace {

constexpr std::int64_t kSampledChannels = 16;
constexpr std::int64_t kColumnBytes = 128 << 20;  // what LibTorch may unfold in float64 at a time

/// One channel for each image.
Tensor channels_of_images(const LayerShape& shape) {
  return torch::arange(shape.input[0]).remainder(shape.weight[0]);
}

Tensor to_layout(const Tensor& tensor, KernelBackend backend) {
  const bool channels_last = backend == KernelBackend::kOwn && tensor.dim() == 4;
  return tensor.contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                         : at::MemoryFormat::Contiguous);
}

Tensor gradient(const Tensor& output, const Tensor& of, const Tensor& output_gradient) {
  return torch::autograd::grad({output}, {of}, {output_gradient}, /*retain_graph=*/true)[0];
}

std::string pair_text(const char* prefix, const std::array<std::int64_t, 2>& values) {
  if (values == std::array<std::int64_t, 2>{1, 1}) {
    return "";
  }
  return values[0] == values[1] ? fmt::format("{}{}", prefix, values[0])
                                : fmt::format("{}{}x{}", prefix, values[0], values[1]);
}

}  // namespace

Conv2dOptions conv_options(const LayerShape& shape) {
  return {.stride = shape.stride,
          .padding = shape.padding,
          .dilation = shape.dilation,
          .groups = shape.groups};
}

const char* pass_name(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackwardData:
      return "backward data";
    case Pass::kBackwardWeight:
      break;
  }
  return "backward weights";
}

std::string layer_name(const LayerShape& s) {
  if (s.kind == LayerKind::kLinear) {
    return fmt::format("linear {}->{}, {}", s.weight[1], s.weight[0], s.input[0]);
  }
  const bool transposed = s.kind == LayerKind::kConvTranspose;
  const std::int64_t outputs = transposed ? s.weight[1] * s.groups : s.weight[0];
  const char* name = "conv";
  if (s.kind != LayerKind::kConv) {
    name = transposed ? "conv transposed" : "conv at channel";
  }
  return fmt::format("{} {}x{}{}{}{} {}->{}, {}x{}x{}", name, s.weight[2], s.weight[3],
                     pair_text("/", s.stride), pair_text(" dilated ", s.dilation),
                     s.groups > 1 ? fmt::format(" in {} groups", s.groups) : "", s.input[1],
                     outputs, s.input[0], s.input[2], s.input[3]);
}

LayerBench::LayerBench(const LayerShape& shape) : shape_(shape) {
  torch::manual_seed(1);
  const bool linear = shape.kind == LayerKind::kLinear;
  const std::size_t dimensions = linear ? 2 : 4;
  const double fan_in = static_cast<double>(shape.weight[1] * shape.weight[2] * shape.weight[3]);
  input_ = torch::randn(at::IntArrayRef(shape.input.data(), dimensions)).relu_();
  weight_ =
      torch::randn(at::IntArrayRef(shape.weight.data(), dimensions)).mul_(std::sqrt(2 / fan_in));
  const torch::NoGradGuard no_grad;
  output_gradient_ = torch::randn(run(input_, weight_).sizes());
}

Tensor LayerBench::run(const Tensor& input, const Tensor& weight) const {
  switch (shape_.kind) {
    case LayerKind::kConv:
      return conv2d(input, weight, Tensor(), conv_options(shape_));
    case LayerKind::kConvTranspose:
      return conv_transpose2d(input, weight, Tensor(), conv_options(shape_));
    case LayerKind::kConvAtChannel:
      return conv1x1_at_channel(input, weight, torch::zeros({shape_.weight[0]}),
                                channels_of_images(shape_));
    case LayerKind::kLinear:
      break;
  }
  return linear(input, weight, Tensor());
}

std::function<Tensor()> LayerBench::pass(Pass pass, KernelBackend backend) const {
  const ScopedKernelBackend scope(backend);
  const Tensor input = to_layout(input_, backend).detach();
  const Tensor weight = weight_.detach();
  if (pass == Pass::kForward) {
    return [this, backend, input, weight] {
      const ScopedKernelBackend forward_scope(backend);
      const torch::NoGradGuard no_grad;
      return run(input, weight);
    };
  }
  Tensor wanted = (pass == Pass::kBackwardData ? input : weight).requires_grad_();
  const Tensor output = run(input, weight);
  return [output, wanted, output_gradient = to_layout(output_gradient_, backend)] {
    return gradient(output, wanted, output_gradient);
  };
}

Tensor LayerBench::run_double(const Tensor& input, const Tensor& weight) const {
  const Tensor none;
  switch (shape_.kind) {
    case LayerKind::kConv:
      return at::conv2d(input, weight, none, shape_.stride, shape_.padding, shape_.dilation,
                        shape_.groups);
    case LayerKind::kConvTranspose:
      return at::conv_transpose2d(input, weight, none, shape_.stride, shape_.padding, {0, 0},
                                  shape_.groups, shape_.dilation);
    case LayerKind::kConvAtChannel:
      return at::conv2d(input, weight)
          .gather(1, channels_of_images(shape_)
                         .view({-1, 1, 1, 1})
                         .expand({-1, 1, input.size(2), input.size(3)}))
          .squeeze(1);
    case LayerKind::kLinear:
      break;
  }
  return at::linear(input, weight);
}

Tensor LayerBench::sampled_channels(std::int64_t channels) const {
  const std::int64_t count = splits() ? std::min(channels, kSampledChannels) : channels;
  return torch::arange(count).mul_(channels).div_(count, "floor");
}

std::int64_t LayerBench::channels_at_once() const {
  const std::int64_t pixels =
      output_gradient_.numel() / std::max<std::int64_t>(1, shape_.weight[0]);
  const std::int64_t bytes_of_one = 8 * shape_.weight[2] * shape_.weight[3] * pixels;
  return splits() ? std::max<std::int64_t>(1, kColumnBytes / bytes_of_one)
                  : std::max(shape_.input[1], shape_.weight[0]);
}

Tensor LayerBench::reference(Pass pass) const {
  const bool data = pass == Pass::kBackwardData;
  const Tensor sample = sampled_channels(data ? shape_.input[1] : shape_.weight[0]);
  Tensor input = input_, weight = weight_, output_gradient = output_gradient_;
  if (splits()) {
    input = data ? input.index_select(1, sample) : input;
    weight = weight.index_select(data ? 1 : 0, sample);
    output_gradient = data ? output_gradient : output_gradient.index_select(1, sample);
  }
  // The axis that is summed over (or, for weights, kept) part by part: output channels for the
  // input's gradient, else input channels.
  const std::int64_t channels = data ? weight.size(0) : input.size(1);
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < channels; first += channels_at_once()) {
    const std::int64_t count = std::min(channels_at_once(), channels - first);
    const bool whole = count == channels;
    const Tensor x = (data || whole ? input : input.narrow(1, first, count)).to(at::kDouble);
    const Tensor w = (whole ? weight : weight.narrow(data ? 0 : 1, first, count)).to(at::kDouble);
    const Tensor g = (data && !whole ? output_gradient.narrow(1, first, count) : output_gradient)
                         .to(at::kDouble);
    if (pass == Pass::kForward) {
      parts.push_back(run_double(x, w));
    } else {
      const Tensor wanted = Tensor(data ? x : w).requires_grad_();
      parts.push_back(gradient(run_double(x, w), wanted, g));
    }
    if (pass != Pass::kBackwardWeight && parts.size() == 2) {
      parts = {parts[0] + parts[1]};
    }
  }
  return parts.size() == 1 ? parts[0] : torch::cat(parts, 1);
}

double LayerBench::error(Pass pass, const Tensor& result, const Tensor& reference) const {
  Tensor actual = result.detach();
  if (splits()) {
    const bool data = pass == Pass::kBackwardData;
    actual = actual.index_select(pass == Pass::kBackwardWeight ? 0 : 1,
                                 sampled_channels(data ? shape_.input[1] : shape_.weight[0]));
  }
  const Tensor difference = actual.to(at::kDouble) - reference;
  return difference.norm().item<double>() / reference.norm().item<double>();
}

double best_seconds(const std::function<Tensor()>& run, bool quick) {
  constexpr double kBudget = 0.02;
  run();
  double best = 1e30, total = 0;
  for (int i = 0; i < (quick ? 1 : 2) || (!quick && total < kBudget); ++i) {
    const Timer timer;
    run();
    const double seconds = timer.elapsed_s();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

}  // namespace detforge
