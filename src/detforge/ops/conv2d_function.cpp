#include "detforge/ops/conv2d_function.h"

#include <vector>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/ops/cpu/conv_passes.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr at::MemoryFormat kNhwc = at::MemoryFormat::ChannelsLast;

/// Scratch memory of one kernel call, from LibTorch's allocator.
class Scratch {
 public:
  cpu::Workspace workspace() {
    return [this](std::int64_t floats) {
      blocks_.push_back(at::empty({floats}, at::kFloat));
      return blocks_.back().data_ptr<float>();
    };
  }

 private:
  std::vector<Tensor> blocks_;
};

const float* floats_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

/// An autograd function takes no undefined tensors.
c10::optional<Tensor> optional(const Tensor& tensor) {
  return tensor.defined() ? c10::optional<Tensor>(tensor) : c10::nullopt;
}

/// Everything that backward needs beside tensors.
struct Call {
  cpu::ConvShape shape;
  Activation activation;
  double leaky_slope;
  bool transposed;
};

void keep(AutogradContext* ctx, const Call& call) {
  const cpu::ConvShape& s = call.shape;
  ctx->saved_data["shape"] = std::vector<std::int64_t>{
      s.images,     s.in_channels, s.out_channels, s.input[0],  s.input[1],
      s.kernel[0],  s.kernel[1],   s.stride[0],    s.stride[1], s.padding[0],
      s.padding[1], s.dilation[0], s.dilation[1]};
  ctx->saved_data["activation"] = static_cast<std::int64_t>(call.activation);
  ctx->saved_data["leaky_slope"] = call.leaky_slope;
  ctx->saved_data["transposed"] = call.transposed;
}

Call kept(AutogradContext* ctx) {
  const std::vector<std::int64_t> v = ctx->saved_data["shape"].toIntVector();
  return {.shape = {.images = v[0],
                    .in_channels = v[1],
                    .out_channels = v[2],
                    .input = {v[3], v[4]},
                    .kernel = {v[5], v[6]},
                    .stride = {v[7], v[8]},
                    .padding = {v[9], v[10]},
                    .dilation = {v[11], v[12]}},
          .activation = static_cast<Activation>(ctx->saved_data["activation"].toInt()),
          .leaky_slope = ctx->saved_data["leaky_slope"].toDouble(),
          .transposed = ctx->saved_data["transposed"].toBool()};
}

/// The result's map: the output of a convolution, the input of the one whose adjoint this is.
Tensor empty_result(const Call& call, bool is_output, const at::TensorOptions& options) {
  const cpu::ConvShape& s = call.shape;
  return is_output != call.transposed
             ? at::empty({s.images, s.out_channels, s.output(0), s.output(1)}, options, kNhwc)
             : at::empty({s.images, s.in_channels, s.input[0], s.input[1]}, options, kNhwc);
}

/// `to` = epilogue(conv(from)), or of its adjoint. Kernels take weights in f32.
void run_pass(const Call& call,
              bool adjoint,
              const Tensor& from,
              const Tensor& weight,
              const cpu::Epilogue& epilogue,
              const Tensor& to) {
  Scratch scratch;
  const cpu::ConvPlan plan = cpu::plan_conv(call.shape);
  const Tensor weights = widen(weight);
  if (adjoint) {
    cpu::conv_backward_data(*cpu::conv_kernels(), call.shape, plan.backward_data, const_map(from),
                            weights.data_ptr<float>(), epilogue, map_of(to), scratch.workspace());
  } else {
    cpu::conv_forward(*cpu::conv_kernels(), call.shape, plan.forward, const_map(from),
                      weights.data_ptr<float>(), epilogue, map_of(to), scratch.workspace());
  }
}

/// The gradient in front of the activation, and the bias's in f32 (undefined unless wanted).
struct OutputGradient {
  Tensor map, bias;
};

OutputGradient through_activation(const Call& call,
                                  const Tensor& output,
                                  const Tensor& grad_output,
                                  bool wants_bias) {
  OutputGradient result;
  result.map = grad_output;
  const std::int64_t channels = grad_output.size(1);
  if (call.activation != Activation::kNone) {
    result.map = at::empty_like(grad_output);
  }
  if (wants_bias) {
    result.bias = at::empty({channels}, grad_output.options().dtype(at::kFloat));
  }
  Scratch scratch;
  cpu::activation_backward(*cpu::conv_kernels(), call.activation,
                           static_cast<float>(call.leaky_slope), grad_output.numel() / channels,
                           channels, const_map(output), const_map(grad_output), map_of(result.map),
                           wants_bias ? result.bias.data_ptr<float>() : nullptr,
                           scratch.workspace());
  return result;
}

/// Gives the output and, if asked for, the input again (see conv2d_and_input).
class OwnConvFunction : public torch::autograd::Function<OwnConvFunction> {
 public:
  static variable_list forward(AutogradContext* ctx,
                               const Tensor& any_input,
                               const Tensor& any_weight,
                               const c10::optional<Tensor>& any_bias,
                               const c10::optional<Tensor>& any_residual,
                               const Call& call,
                               bool returns_input) {
    const Tensor input = any_input.contiguous(kNhwc), weight = any_weight.contiguous();
    const Tensor bias = any_bias ? widen(any_bias->contiguous()) : Tensor();
    const Tensor residual = any_residual ? any_residual->contiguous(kNhwc) : Tensor();
    const Tensor output = empty_result(call, /*is_output=*/true, input.options());
    run_pass(call, call.transposed, input, weight,
             {.bias = floats_or_null(bias),
              .residual = const_map(residual),
              .activation = call.activation,
              .leaky_slope = static_cast<float>(call.leaky_slope)},
             output);
    keep(ctx, call);
    ctx->saved_data["types"] = std::vector<std::int64_t>{
        static_cast<std::int64_t>(weight.scalar_type()),
        static_cast<std::int64_t>(any_bias ? any_bias->scalar_type() : at::kFloat)};
    ctx->saved_data["needs"] = std::vector<std::int64_t>{
        any_input.requires_grad(), any_weight.requires_grad(),
        any_bias && any_bias->requires_grad(), any_residual && any_residual->requires_grad()};
    ctx->save_for_backward({any_weight.requires_grad() ? input : Tensor(),
                            any_input.requires_grad() ? weight : Tensor(),
                            call.activation == Activation::kNone ? Tensor() : output});
    return returns_input ? variable_list{output, any_input} : variable_list{output};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Call call = kept(ctx);
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<std::int64_t> needs = ctx->saved_data["needs"].toIntVector();
    const std::vector<std::int64_t> types = ctx->saved_data["types"].toIntVector();
    const auto [gradient, bias_sums] =
        through_activation(call, saved[2], grads[0].contiguous(kNhwc), needs[2] != 0);
    Tensor grad_input, grad_weight, grad_bias;
    if (needs[1] != 0) {
      grad_weight = to_map_type(weight_gradient(call, saved[0], gradient),
                                static_cast<at::ScalarType>(types[0]));
    }
    if (needs[2] != 0) {
      grad_bias = to_map_type(bias_sums, static_cast<at::ScalarType>(types[1]));
    }
    if (needs[0] != 0) {
      RECORD_FUNCTION("detforge::conv backward data", {});
      grad_input = empty_result(call, /*is_output=*/false, gradient.options());
      const Tensor others = grads.size() > 1 ? grads[1].contiguous(kNhwc) : Tensor();
      run_pass(call, !call.transposed, gradient, saved[1], {.residual = const_map(others)},
               grad_input);
    }
    return {grad_input, grad_weight, grad_bias, needs[3] != 0 ? gradient : Tensor(),
            Tensor(),   Tensor()};
  }

 private:
  static Tensor weight_gradient(const Call& call, const Tensor& input, const Tensor& gradient) {
    RECORD_FUNCTION("detforge::conv backward weights", {});
    const cpu::ConvShape& s = call.shape;
    Tensor result = at::empty({s.out_channels, s.in_channels, s.kernel[0], s.kernel[1]},
                              gradient.options().dtype(at::kFloat));
    Scratch scratch;
    // In a transposed convolution input and output change places.
    cpu::conv_backward_weight(*cpu::conv_kernels(), s, cpu::plan_conv(s).backward_weight,
                              const_map(call.transposed ? gradient : input),
                              const_map(call.transposed ? input : gradient),
                              result.data_ptr<float>(), scratch.workspace());
    return result;
  }
};

}  // namespace

bool has_own_kernels(const Tensor& input, const cpu::ConvPlan& plan) {
  return plan.forward != cpu::ConvAlgorithm::kAten && input.is_cpu() &&
         (input.scalar_type() == at::kFloat || is_half_type(input.scalar_type()));
}

cpu::ConvShape conv_shape(const Tensor& input, const Tensor& weight, const Conv2dOptions& options) {
  return {.images = input.size(0),
          .in_channels = input.size(1),
          .out_channels = weight.size(0),
          .input = {input.size(2), input.size(3)},
          .kernel = {weight.size(2), weight.size(3)},
          .stride = options.stride,
          .padding = options.padding,
          .dilation = options.dilation,
          .groups = options.groups};
}

cpu::ConvShape transposed_conv_shape(const Tensor& input,
                                     const Tensor& weight,
                                     const Conv2dOptions& options) {
  cpu::ConvShape shape = conv_shape(input, weight, options);
  shape.in_channels = weight.size(1) * options.groups;
  shape.out_channels = weight.size(0);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    shape.input[axis] = (shape.input[axis] - 1) * options.stride[axis] - 2 * options.padding[axis] +
                        options.dilation[axis] * (shape.kernel[axis] - 1) + 1;
  }
  return shape;
}

ConvAndInput own_conv2d(const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Conv2dOptions& options,
                        const Tensor& residual,
                        bool returns_input) {
  RECORD_FUNCTION("detforge::conv2d", {});
  // A frozen input stays as it is: its alias would get a gradient because the weight has one.
  const bool makes_alias = returns_input && input.requires_grad();
  const variable_list results =
      OwnConvFunction::apply(input, weight, optional(bias), optional(residual),
                             Call{.shape = conv_shape(input, weight, options),
                                  .activation = options.activation,
                                  .leaky_slope = options.leaky_slope,
                                  .transposed = false},
                             makes_alias);
  return {results[0], makes_alias ? results[1] : returns_input ? input : Tensor()};
}

Tensor own_conv_transpose2d(const Tensor& input,
                            const Tensor& weight,
                            const Tensor& bias,
                            const Conv2dOptions& options) {
  RECORD_FUNCTION("detforge::conv_transpose2d", {});
  return OwnConvFunction::apply(input, weight, optional(bias), optional({}),
                                Call{.shape = transposed_conv_shape(input, weight, options),
                                     .activation = options.activation,
                                     .leaky_slope = options.leaky_slope,
                                     .transposed = true},
                                /*returns_input=*/false)[0];
}

}  // namespace detforge
