#include "detforge/ops/upsample.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/map_values.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

/// The fine map seen from the coarse one, both NHWC.
struct Squares {
  std::int64_t rows, width, channels;  ///< rows: of all images of the coarse map
  std::int64_t stride;                 ///< values from pixel to pixel of the fine map

  /// Calls visit(pixel of the coarse map, upper left pixel of its square, room for five pixels of
  /// the fine map).
  template <typename Visit>
  void for_each(const Visit& visit) const {
    at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> room(static_cast<std::size_t>(5 * stride));
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t x = 0; x < width; ++x) {
          visit((row * width + x) * channels, (2 * row * 2 * width + 2 * x) * stride, room.data());
        }
      }
    });
  }
  std::int64_t below() const { return 2 * width * stride; }
};

Squares squares_of(at::IntArrayRef coarse, std::int64_t stride) {
  return {coarse[0] * coarse[2], coarse[3], coarse[1], stride};
}

/// `fine` has pixels of `stride` values, of which the first are the coarse map's.
void copy_up(const Tensor& coarse, const Tensor& fine) {
  const Squares squares = squares_of(coarse.sizes(), fine.size(1));
  const auto size = static_cast<std::int64_t>(coarse.element_size());
  const auto* from = static_cast<const std::byte*>(coarse.data_ptr());
  auto* to = static_cast<std::byte*>(fine.data_ptr());
  const std::int64_t bytes = squares.channels * size;
  squares.for_each([&](std::int64_t pixel, std::int64_t square, float* /*room*/) {
    for (const std::int64_t at : {square, square + squares.stride, square + squares.below(),
                                  square + squares.below() + squares.stride}) {
      std::copy_n(from + pixel * size, bytes, to + at * size);
    }
  });
}

void add_up(const Tensor& coarse, const Tensor& fine) {
  const Squares squares = squares_of(coarse.sizes(), coarse.size(1));
  const cpu::ConstMap from = const_map(coarse);
  const cpu::Map to = map_of(fine);
  const std::int64_t channels = squares.channels, both = 2 * channels;
  squares.for_each([&](std::int64_t pixel, std::int64_t square, float* room) {
    const float* __restrict values = cpu::read_values(from + pixel, channels, room);
    for (const std::int64_t start : {square, square + squares.below()}) {
      // Read and written in place, or read into the room and written from there.
      cpu::read_values(to + start, both, room + channels);
      float* __restrict left = cpu::place_of(to + start, room + channels);
      for (std::int64_t c = 0; c < channels; ++c) {
        left[c] += values[c];
      }
      float* __restrict right = left + channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        right[c] += values[c];
      }
      cpu::finish_values(left, both, to + start);
    }
  });
}

/// The sums over squares of the first channels of `fine` [N,*,2H,2W], as a map of `sizes`.
Tensor sum_down(const Tensor& fine, at::IntArrayRef sizes) {
  const Tensor from = fine.contiguous(kLast);
  Tensor coarse = at::empty(sizes, from.options(), kLast);
  const std::int64_t stride = from.size(1);
  const Squares squares = squares_of(sizes, stride);
  const cpu::ConstMap values = const_map(from);
  const cpu::Map sums = map_of(coarse);
  squares.for_each([&](std::int64_t pixel, std::int64_t square, float* room) {
    float* __restrict sum = cpu::place_of(sums + pixel, room);
    const float* __restrict upper = cpu::read_values(values + square, 2 * stride, room + stride);
    const float* __restrict lower =
        cpu::read_values(values + (square + squares.below()), 2 * stride, room + 3 * stride);
    for (std::int64_t c = 0; c < squares.channels; ++c) {
      sum[c] = ((upper[c] + upper[c + stride]) + lower[c]) + lower[c + stride];
    }
    cpu::finish_values(sum, squares.channels, sums + pixel);
  });
  return coarse;
}

class UpsampleFunction : public torch::autograd::Function<UpsampleFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& coarse) {
    ctx->saved_data["coarse"] = coarse.sizes();
    Tensor fine =
        at::empty({coarse.size(0), coarse.size(1), 2 * coarse.size(2), 2 * coarse.size(3)},
                  coarse.options(), kLast);
    copy_up(coarse, fine);
    return fine;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {sum_down(grads[0], ctx->saved_data["coarse"].toIntVector())};
  }
};

class UpsampleAddFunction : public torch::autograd::Function<UpsampleAddFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& fine, const Tensor& coarse) {
    ctx->saved_data["coarse"] = coarse.sizes();
    ctx->mark_dirty({fine});
    add_up(coarse, fine);
    return fine;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0], sum_down(grads[0], ctx->saved_data["coarse"].toIntVector())};
  }
};

class UpsampleConcatFunction : public torch::autograd::Function<UpsampleConcatFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& coarse, const Tensor& fine) {
    ctx->saved_data["coarse"] = coarse.sizes();
    const std::int64_t own = fine.size(1), above = coarse.size(1), stride = own + above;
    Tensor both =
        at::empty({fine.size(0), stride, fine.size(2), fine.size(3)}, fine.options(), kLast);
    copy_up(coarse, both);
    const auto size = static_cast<std::int64_t>(fine.element_size());
    const auto* from = static_cast<const std::byte*>(fine.data_ptr());
    auto* to = static_cast<std::byte*>(both.data_ptr()) + above * size;
    at::parallel_for(0, fine.numel() / own, 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pixel = begin; pixel < end; ++pixel) {
        std::copy_n(from + pixel * own * size, own * size, to + pixel * stride * size);
      }
    });
    return both;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const std::vector<std::int64_t> coarse = ctx->saved_data["coarse"].toIntVector();
    return {sum_down(grads[0], coarse), grads[0].slice(1, coarse[1]).contiguous(kLast)};
  }
};

void check(const Tensor& coarse, const Tensor& fine) {
  DETFORGE_CHECK(
      coarse.dim() == 4 && fine.dim() == 4 && fine.size(0) == coarse.size(0) &&
          fine.size(2) == 2 * coarse.size(2) && fine.size(3) == 2 * coarse.size(3) &&
          fine.scalar_type() == coarse.scalar_type(),
      "the finer map is not twice as high and wide as the coarser one, or of another type",
      "pad the images so that the largest stride divides their sides");
}

}  // namespace

Tensor upsample_twice(const Tensor& coarse) {
  RECORD_FUNCTION("detforge::upsample_twice", {});
  if (is_own_map(coarse)) {
    return UpsampleFunction::apply(coarse);
  }
  if (is_half_type(coarse.scalar_type())) {
    return in_f32("upsample", coarse, upsample_twice);
  }
  return at::upsample_nearest2d(coarse, {coarse.size(2) * 2, coarse.size(3) * 2}, 2.0, 2.0);
}

Tensor upsample_add_(const Tensor& fine, const Tensor& coarse) {
  RECORD_FUNCTION("detforge::upsample_add", {});
  check(coarse, fine);
  DETFORGE_CHECK(fine.size(1) == coarse.size(1),
                 "maps of " + std::to_string(fine.size(1)) + " and " +
                     std::to_string(coarse.size(1)) + " channels cannot be added",
                 "give both layers the same number of channels");
  if (is_own_map(fine)) {
    return UpsampleAddFunction::apply(fine, coarse.contiguous(kLast));
  }
  Tensor sum = fine;
  return sum.add_(upsample_twice(coarse));
}

Tensor upsample_concat(const Tensor& coarse, const Tensor& fine) {
  RECORD_FUNCTION("detforge::upsample_concat", {});
  check(coarse, fine);
  if (is_own_map(fine)) {
    return UpsampleConcatFunction::apply(coarse.contiguous(kLast), fine);
  }
  return at::cat({upsample_twice(coarse), fine}, 1);
}

}  // namespace detforge
