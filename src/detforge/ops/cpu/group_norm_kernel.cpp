#include "detforge/ops/cpu/group_norm_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace detforge::cpu {
namespace {

constexpr std::int64_t kPiece = 128;  ///< pixels whose sums are f32; sums of pieces are f64

// One piece: `pixels` channel vectors.

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

Slopes slopes_of(GroupNormActivation activation) {
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

struct Kernels {
  decltype(&add_moments) moments;
  decltype(&apply) apply_affine;
  decltype(&activation_gradient) activation;
  decltype(&add_gradients) gradients;
  decltype(&input_gradient) input;
};

#define DETFORGE_GROUP_NORM_BUILD(TARGET, NAME)                                                \
  TARGET void moments_##NAME(std::int64_t pixels, std::int64_t channels, const float* x,       \
                             const float* shift, float* sums, float* squares) {                \
    add_moments(pixels, channels, x, shift, sums, squares);                                    \
  }                                                                                            \
  TARGET void apply_##NAME(std::int64_t pixels, std::int64_t channels, const float* x,         \
                           const Affine& affine, float* y) {                                   \
    apply(pixels, channels, x, affine, y);                                                     \
  }                                                                                            \
  TARGET void activation_##NAME(std::int64_t n, const float* y, Slopes slopes,                 \
                                const float* grad_y, float* out) {                             \
    activation_gradient(n, y, slopes, grad_y, out);                                            \
  }                                                                                            \
  TARGET void gradients_##NAME(std::int64_t pixels, std::int64_t channels, const float* x,     \
                               const float* grad, const float* mean, float* sums,              \
                               float* products) {                                              \
    add_gradients(pixels, channels, x, grad, mean, sums, products);                            \
  }                                                                                            \
  TARGET void input_##NAME(std::int64_t pixels, std::int64_t channels, const float* x,         \
                           const float* grad, const InputGradient& factors, float* grad_x) {   \
    input_gradient(pixels, channels, x, grad, factors, grad_x);                                \
  }                                                                                            \
  constexpr Kernels k##NAME{moments_##NAME, apply_##NAME, activation_##NAME, gradients_##NAME, \
                            input_##NAME};

DETFORGE_GROUP_NORM_BUILD(, Portable)
DETFORGE_GROUP_NORM_BUILD(DETFORGE_TARGET_AVX2, Avx2)
#undef DETFORGE_GROUP_NORM_BUILD

const Kernels& kernels_of(KernelBuild build) {
  return build == KernelBuild::kPortable ? kPortable : kAvx2;
}

/// Calls visit(image, piece of the image, its first value, its pixels) for every piece of all
/// images, from several threads.
template <typename Visit>
void for_each_piece(const GroupNormShape& s, const Visit& visit) {
  const std::int64_t pieces = (s.pixels + kPiece - 1) / kPiece;
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t first = piece * kPiece;
      visit(n, piece, (n * s.pixels + first) * s.channels, std::min(kPiece, s.pixels - first));
    }
  }
}

/// Two sums of each channel of each image, collected by pieces.
class ChannelSums {
 public:
  explicit ChannelSums(const GroupNormShape& s)
      : pieces_((s.pixels + kPiece - 1) / kPiece),
        channels_(s.channels),
        values_(static_cast<std::size_t>(s.images * pieces_ * 2 * s.channels)) {}

  float* first(std::int64_t image, std::int64_t piece) {
    return values_.data() + (image * pieces_ + piece) * 2 * channels_;
  }
  float* second(std::int64_t image, std::int64_t piece) { return first(image, piece) + channels_; }

  /// The first (0) or second (1) sum of a channel over all pieces of an image.
  double total(std::int64_t image, int which, std::int64_t channel) const {
    double sum = 0;
    const float* value =
        values_.data() + image * pieces_ * 2 * channels_ + which * channels_ + channel;
    for (std::int64_t piece = 0; piece < pieces_; ++piece, value += 2 * channels_) {
      sum += static_cast<double>(*value);
    }
    return sum;
  }

 private:
  std::int64_t pieces_, channels_;
  std::vector<float> values_;
};

/// Mean and inverse deviation of a group from the moments of its channels about their shifts.
void finish_group(const GroupNormShape& s,
                  const ChannelSums& sums,
                  const float* shift,
                  std::int64_t image,
                  std::int64_t group,
                  GroupNormStatistics& statistics) {
  const std::int64_t width = s.channels / s.groups;
  const auto count = static_cast<double>(s.pixels);
  double mean = 0, squares = 0;
  for (std::int64_t c = group * width; c < (group + 1) * width; ++c) {
    mean += static_cast<double>(shift[c]) + sums.total(image, 0, c) / count;
  }
  mean /= static_cast<double>(width);
  for (std::int64_t c = group * width; c < (group + 1) * width; ++c) {
    const double sum = sums.total(image, 0, c);
    const double distance = static_cast<double>(shift[c]) + sum / count - mean;
    squares += sums.total(image, 1, c) - sum * sum / count + count * distance * distance;
  }
  const double variance = std::max(squares, 0.0) / (count * static_cast<double>(width));
  const auto at = static_cast<std::size_t>(image * s.groups + group);
  statistics.mean[at] = static_cast<float>(mean);
  statistics.inverse_std[at] =
      static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(s.eps)));
}

GroupNormStatistics statistics_of(const GroupNormShape& s, const float* x, const Kernels& kernels) {
  ChannelSums sums(s);
  const auto shift = [&](std::int64_t n) { return x + n * s.pixels * s.channels; };
  for_each_piece(s, [&](std::int64_t n, std::int64_t piece, std::int64_t at, std::int64_t pixels) {
    kernels.moments(pixels, s.channels, x + at, shift(n), sums.first(n, piece),
                    sums.second(n, piece));
  });
  const auto count = static_cast<std::size_t>(s.images * s.groups);
  GroupNormStatistics statistics{std::vector<float>(count), std::vector<float>(count)};
#pragma omp parallel for collapse(2) schedule(static)
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t group = 0; group < s.groups; ++group) {
      finish_group(s, sums, shift(n), n, group, statistics);
    }
  }
  return statistics;
}

/// [N,C] values, from those of each image's channels.
template <typename Value>
std::vector<float> per_channel(const GroupNormShape& s, const Value& value) {
  std::vector<float> values(static_cast<std::size_t>(s.images * s.channels));
  const std::int64_t width = s.channels / s.groups;
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      values[static_cast<std::size_t>(n * s.channels + c)] =
          value(n, c, static_cast<std::size_t>(n * s.groups + c / width));
    }
  }
  return values;
}

/// Per group: mean over its values of weight * grad, and of weight * grad * (x - mean).
struct GroupMeans {
  std::vector<double> grad, product;
};

GroupMeans group_means(const GroupNormShape& s, const ChannelSums& sums, const float* weight) {
  const auto count = static_cast<std::size_t>(s.images * s.groups);
  GroupMeans means{std::vector<double>(count), std::vector<double>(count)};
  const std::int64_t width = s.channels / s.groups;
  const double size = static_cast<double>(s.pixels) * static_cast<double>(width);
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const auto group = static_cast<std::size_t>(n * s.groups + c / width);
      means.grad[group] += static_cast<double>(weight[c]) * sums.total(n, 0, c) / size;
      means.product[group] += static_cast<double>(weight[c]) * sums.total(n, 1, c) / size;
    }
  }
  return means;
}

/// Gradients of weight and bias, over all images.
void parameter_gradients(const GroupNormShape& s,
                         const ChannelSums& sums,
                         const GroupNormStatistics& statistics,
                         const GroupNormGradients& gradients) {
  const std::int64_t width = s.channels / s.groups;
  for (std::int64_t c = 0; c < s.channels; ++c) {
    double of_weight = 0, of_bias = 0;
    for (std::int64_t n = 0; n < s.images; ++n) {
      const auto group = static_cast<std::size_t>(n * s.groups + c / width);
      of_weight += sums.total(n, 1, c) * static_cast<double>(statistics.inverse_std[group]);
      of_bias += sums.total(n, 0, c);
    }
    gradients.weight[c] = static_cast<float>(of_weight);
    gradients.bias[c] = static_cast<float>(of_bias);
  }
}

}  // namespace

GroupNormStatistics group_norm_forward(const GroupNormShape& s,
                                       const float* x,
                                       const float* weight,
                                       const float* bias,
                                       const float* residual,
                                       GroupNormActivation activation,
                                       float* y,
                                       KernelBuild build) {
  const Kernels& kernels = kernels_of(build);
  GroupNormStatistics statistics = statistics_of(s, x, kernels);
  const std::vector<float> scale =
      per_channel(s, [&](std::int64_t, std::int64_t c, std::size_t group) {
        return statistics.inverse_std[group] * weight[c];
      });
  const std::vector<float> offset =
      per_channel(s, [&](std::int64_t, std::int64_t c, std::size_t group) {
        return bias[c] - statistics.mean[group] * (statistics.inverse_std[group] * weight[c]);
      });
  for_each_piece(s, [&](std::int64_t n, std::int64_t, std::int64_t at, std::int64_t pixels) {
    kernels.apply_affine(pixels, s.channels, x + at,
                         {.scale = scale.data() + n * s.channels,
                          .offset = offset.data() + n * s.channels,
                          .residual = residual == nullptr ? nullptr : residual + at,
                          .slopes = slopes_of(activation)},
                         y + at);
  });
  return statistics;
}

void group_norm_backward(const GroupNormShape& s,
                         const float* x,
                         const float* y,
                         const float* weight,
                         const GroupNormStatistics& statistics,
                         GroupNormActivation activation,
                         const float* grad_y,
                         const GroupNormGradients& gradients,
                         KernelBuild build) {
  const Kernels& kernels = kernels_of(build);
  const std::vector<float> mean =
      per_channel(s, [&](std::int64_t, std::int64_t, std::size_t g) { return statistics.mean[g]; });
  // The gradient in front of the activation goes where the input's will be, or the residual's is.
  float* masked = gradients.residual != nullptr ? gradients.residual : gradients.x;
  const float* inner = activation.is_there ? masked : grad_y;
  ChannelSums sums(s);
  for_each_piece(s, [&](std::int64_t n, std::int64_t piece, std::int64_t at, std::int64_t pixels) {
    if (activation.is_there) {
      kernels.activation(pixels * s.channels, y + at, slopes_of(activation), grad_y + at,
                         masked + at);
    }
    kernels.gradients(pixels, s.channels, x + at, inner + at, mean.data() + n * s.channels,
                      sums.first(n, piece), sums.second(n, piece));
  });
  parameter_gradients(s, sums, statistics, gradients);
  // With xhat = (x - mean) r: grad_x = r (w g - mean(w g) - xhat mean(w g xhat)).
  const GroupMeans means = group_means(s, sums, weight);
  const auto r = [&](std::size_t g) { return static_cast<double>(statistics.inverse_std[g]); };
  const auto of_x_at = [&](std::size_t g) { return -r(g) * r(g) * r(g) * means.product[g]; };
  const std::vector<float> of_grad =
      per_channel(s, [&](std::int64_t, std::int64_t c, std::size_t g) {
        return static_cast<float>(r(g) * static_cast<double>(weight[c]));
      });
  const std::vector<float> of_x = per_channel(
      s, [&](std::int64_t, std::int64_t, std::size_t g) { return static_cast<float>(of_x_at(g)); });
  const std::vector<float> constant =
      per_channel(s, [&](std::int64_t, std::int64_t, std::size_t g) {
        return static_cast<float>(-r(g) * means.grad[g] -
                                  of_x_at(g) * static_cast<double>(statistics.mean[g]));
      });
  for_each_piece(s, [&](std::int64_t n, std::int64_t, std::int64_t at, std::int64_t pixels) {
    const std::int64_t channel = n * s.channels;
    kernels.input(pixels, s.channels, x + at, inner + at,
                  {.of_grad = of_grad.data() + channel,
                   .of_x = of_x.data() + channel,
                   .constant = constant.data() + channel},
                  gradients.x + at);
  });
}

}  // namespace detforge::cpu
