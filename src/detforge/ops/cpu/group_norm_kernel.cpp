#include "detforge/ops/cpu/group_norm_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "detforge/ops/cpu/group_norm_pieces.h"
#include "detforge/ops/cpu/map_values.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kPiece = 128;  ///< pixels whose sums are f32; sums of pieces are f64

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

/// Some pixels of one image.
struct Piece {
  std::int64_t image, index;
  std::int64_t at;  ///< its first value in the map
  std::int64_t pixels, values;
};

/// One thread's room for pieces of maps that are not stored as floats.
class PieceRoom {
 public:
  PieceRoom(const GroupNormShape& s, Storage storage, std::size_t maps)
      : size_(storage == Storage::kFloat ? 0 : static_cast<std::size_t>(kPiece * s.channels)),
        floats_(size_ * maps) {}
  float* operator[](std::size_t map) { return floats_.data() + map * size_; }

 private:
  std::size_t size_;
  std::vector<float> floats_;
};

/// Calls visit(piece, room for `maps` pieces) for every piece of all images, from several threads.
template <typename Visit>
void for_each_piece(const GroupNormShape& s,
                    Storage storage,
                    std::size_t maps,
                    const Visit& visit) {
  const std::int64_t pieces = (s.pixels + kPiece - 1) / kPiece;
#pragma omp parallel
  {
    PieceRoom room(s, storage, maps);
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < s.images; ++n) {
      for (std::int64_t index = 0; index < pieces; ++index) {
        const std::int64_t first = index * kPiece, pixels = std::min(kPiece, s.pixels - first);
        visit(Piece{n, index, (n * s.pixels + first) * s.channels, pixels, pixels * s.channels},
              room);
      }
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

/// [N,C]: the first pixel of each image.
std::vector<float> first_pixels(const GroupNormShape& s, const ConstMap& x) {
  std::vector<float> pixels(static_cast<std::size_t>(s.images * s.channels));
  for (std::int64_t n = 0; n < s.images && s.pixels > 0; ++n) {
    float* to = pixels.data() + n * s.channels;
    const float* from = read_values(x + n * s.pixels * s.channels, s.channels, to);
    std::copy_n(from, s.channels, to);
  }
  return pixels;
}

GroupNormStatistics statistics_of(const GroupNormShape& s,
                                  const ConstMap& x,
                                  const Kernels& kernels) {
  ChannelSums sums(s);
  const std::vector<float> shifts = first_pixels(s, x);
  const auto shift = [&](std::int64_t n) { return shifts.data() + n * s.channels; };
  for_each_piece(s, x.storage(), 1, [&](const Piece& p, PieceRoom& room) {
    kernels.moments(p.pixels, s.channels, read_values(x + p.at, p.values, room[0]), shift(p.image),
                    sums.first(p.image, p.index), sums.second(p.image, p.index));
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
                                       const ConstMap& x,
                                       const float* weight,
                                       const float* bias,
                                       const ConstMap& residual,
                                       GroupNormActivation activation,
                                       const Map& y,
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
  for_each_piece(s, x.storage(), 3, [&](const Piece& p, PieceRoom& room) {
    float* to = place_of(y + p.at, room[1]);
    const float* added =
        residual.is_null() ? nullptr : read_values(residual + p.at, p.values, room[2]);
    kernels.apply_affine(p.pixels, s.channels, read_values(x + p.at, p.values, room[0]),
                         {.scale = scale.data() + p.image * s.channels,
                          .offset = offset.data() + p.image * s.channels,
                          .residual = added,
                          .slopes = slopes_of(activation)},
                         to);
    finish_values(to, p.values, y + p.at);
  });
  return statistics;
}

void group_norm_backward(const GroupNormShape& s,
                         const ConstMap& x,
                         const ConstMap& y,
                         const float* weight,
                         const GroupNormStatistics& statistics,
                         GroupNormActivation activation,
                         const ConstMap& grad_y,
                         const GroupNormGradients& gradients,
                         KernelBuild build) {
  const Kernels& kernels = kernels_of(build);
  const std::vector<float> mean =
      per_channel(s, [&](std::int64_t, std::int64_t, std::size_t g) { return statistics.mean[g]; });
  // The gradient in front of the activation goes where the input's will be, or the residual's is.
  const Map masked = gradients.residual.is_null() ? gradients.x : gradients.residual;
  const ConstMap inner = activation.is_there ? ConstMap(masked) : grad_y;
  ChannelSums sums(s);
  for_each_piece(s, x.storage(), 3, [&](const Piece& p, PieceRoom& room) {
    const float* grad = read_values(grad_y + p.at, p.values, room[0]);
    if (activation.is_there) {
      float* to = place_of(masked + p.at, room[1]);
      kernels.activation(p.values, read_values(y + p.at, p.values, room[2]), slopes_of(activation),
                         grad, to);
      finish_values(to, p.values, masked + p.at);
      grad = to;
    }
    kernels.gradients(p.pixels, s.channels, read_values(x + p.at, p.values, room[2]), grad,
                      mean.data() + p.image * s.channels, sums.first(p.image, p.index),
                      sums.second(p.image, p.index));
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
  for_each_piece(s, x.storage(), 3, [&](const Piece& p, PieceRoom& room) {
    const std::int64_t channel = p.image * s.channels;
    float* to = place_of(gradients.x + p.at, room[2]);
    kernels.input(p.pixels, s.channels, read_values(x + p.at, p.values, room[0]),
                  read_values(inner + p.at, p.values, room[1]),
                  {.of_grad = of_grad.data() + channel,
                   .of_x = of_x.data() + channel,
                   .constant = constant.data() + channel},
                  to);
    finish_values(to, p.values, gradients.x + p.at);
  });
}

}  // namespace detforge::cpu
