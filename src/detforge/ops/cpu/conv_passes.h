#pragma once

#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/cpu/conv_plan.h"
#include "detforge/ops/cpu/workspace.h"

/// The three passes of a convolution over NHWC maps and weights [out][in][kh][kw], by the algorithm
/// that a plan names (not kAten). Groups must be 1. A transposed convolution is the backward-data
/// pass of `shape` with an epilogue, its backward-data is the forward pass. Maps may be of any
/// storage, each of its own (a residual: of its output's); weights and their gradients are f32.
/// Every element of the result is written. Results have the same bits for any number of threads.
namespace detforge::cpu {

/// output [images][OH][OW][out] = epilogue(input * weight)
void conv_forward(const ConvKernels& kernels,
                  const ConvShape& shape,
                  ConvAlgorithm algorithm,
                  const ConstMap& input,
                  const float* weight,
                  const Epilogue& epilogue,
                  const Map& output,
                  const Workspace& workspace);

/// grad_input [images][H][W][in] = epilogue(the adjoint of conv_forward applied to grad_output)
void conv_backward_data(const ConvKernels& kernels,
                        const ConvShape& shape,
                        ConvAlgorithm algorithm,
                        const ConstMap& grad_output,
                        const float* weight,
                        const Epilogue& epilogue,
                        const Map& grad_input,
                        const Workspace& workspace);

/// grad_weight [out][in][kh][kw]
void conv_backward_weight(const ConvKernels& kernels,
                          const ConvShape& shape,
                          ConvAlgorithm algorithm,
                          const ConstMap& input,
                          const ConstMap& grad_output,
                          float* grad_weight,
                          const Workspace& workspace);

/// What the activation leaves of an output's gradient, [rows][channels] each: grad_output where
/// `output` is positive, else 0 (kRelu) or leaky_slope times it. `bias_gradient` [channels], unless
/// null, gets the sum over rows. kNone: only that sum; `output` and `gradient` are not used.
void activation_backward(const ConvKernels& kernels,
                         Activation activation,
                         float leaky_slope,
                         std::int64_t rows,
                         std::int64_t channels,
                         const ConstMap& output,
                         const ConstMap& grad_output,
                         const Map& gradient,
                         float* bias_gradient,
                         const Workspace& workspace);

}  // namespace detforge::cpu
