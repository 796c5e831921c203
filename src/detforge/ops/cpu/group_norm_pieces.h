#pragma once

#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/group_norm_kernel.h"

/// The inner loops of the normalisations over one piece of a map: `pixels` channel vectors of
/// floats.
namespace detforge::cpu {

/// sums[c] += x - shift[c], squares[c] += (x - shift[c])^2. The shift, a value of the map, keeps
/// the variance exact where the mean is far from 0.
DETFORGE_KERNEL_INLINE void add_moments(std::int64_t pixels,
                                        std::int64_t channels,
                                        const float* x,
                                        const float* __restrict shift,
                                        float* __restrict sums,
                                        float* __restrict squares) {
  for (std::int64_t p = 0; p < pixels; ++p, x += channels) {
    const float* __restrict values = x;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = values[c] - shift[c];
      sums[c] += value;
      squares[c] += value * value;
    }
  }
}

/// The activation as factors of values above and below 0. Were the first the constant 1, the
/// compiler would make a branch of it, and no vector code.
struct Slopes {
  float above, below;
};

inline Slopes slopes_of(GroupNormActivation activation) {
  return {1.0F, activation.is_there ? activation.slope : 1.0F};
}

/// What turns a piece of x into y; scale and offset of each channel.
struct Affine {
  const float *scale, *offset;
  const float* residual;  ///< or nullptr
  Slopes slopes;
};

DETFORGE_KERNEL_INLINE void apply(
    std::int64_t pixels, std::int64_t channels, const float* x, const Affine& affine, float* y) {
  const float* __restrict scale = affine.scale;
  const float* __restrict offset = affine.offset;
  const Slopes slopes = affine.slopes;
  for (std::int64_t p = 0; p < pixels * channels; p += channels) {
    const float* __restrict values = x + p;
    float* __restrict out = y + p;
    if (affine.residual == nullptr) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const float value = values[c] * scale[c] + offset[c];
        out[c] = value * (value > 0.0F ? slopes.above : slopes.below);
      }
      continue;
    }
    const float* __restrict residual = affine.residual + p;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = (values[c] * scale[c] + offset[c]) + residual[c];
      out[c] = value * (value > 0.0F ? slopes.above : slopes.below);
    }
  }
}

/// Gradient in front of the activation.
DETFORGE_KERNEL_INLINE void activation_gradient(std::int64_t n,
                                                const float* __restrict y,
                                                Slopes slopes,
                                                const float* __restrict grad_y,
                                                float* __restrict grad) {
  for (std::int64_t i = 0; i < n; ++i) {
    grad[i] = grad_y[i] * (y[i] > 0.0F ? slopes.above : slopes.below);
  }
}

/// sums[c] += grad, products[c] += grad * (x - mean[c])
DETFORGE_KERNEL_INLINE void add_gradients(std::int64_t pixels,
                                          std::int64_t channels,
                                          const float* x,
                                          const float* grad,
                                          const float* __restrict mean,
                                          float* __restrict sums,
                                          float* __restrict products) {
  for (std::int64_t p = 0; p < pixels * channels; p += channels) {
    const float* __restrict values = x + p;
    const float* __restrict g = grad + p;
    for (std::int64_t c = 0; c < channels; ++c) {
      sums[c] += g[c];
      products[c] += g[c] * (values[c] - mean[c]);
    }
  }
}

/// grad_x = grad * of_grad[c] + x * of_x[c] + constant[c]; grad_x may be grad
struct InputGradient {
  const float *of_grad, *of_x, *constant;
};

DETFORGE_KERNEL_INLINE void input_gradient(std::int64_t pixels,
                                           std::int64_t channels,
                                           const float* x,
                                           const float* grad,
                                           const InputGradient& factors,
                                           float* grad_x) {
  const float* __restrict of_grad = factors.of_grad;
  const float* __restrict of_x = factors.of_x;
  const float* __restrict constant = factors.constant;
  for (std::int64_t p = 0; p < pixels * channels; p += channels) {
    const float* __restrict values = x + p;
    const float* g = grad + p;
    float* out = grad_x + p;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) {
      out[c] = (g[c] * of_grad[c] + values[c] * of_x[c]) + constant[c];
    }
  }
}

}  // namespace detforge::cpu
