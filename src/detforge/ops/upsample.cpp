#include "detforge/ops/upsample.h"

#include <string>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/layout.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

/// The fine map seen from the coarse one, both NHWC.
struct Squares {
  std::int64_t rows, width, channels;  ///< rows: of all images of the coarse map
  std::int64_t stride;                 ///< floats from pixel to pixel of the fine map

  /// Calls visit(pixel of the coarse map, upper left pixel of its square, pixels of a fine row).
  template <typename Visit>
  void for_each(const Visit& visit) const {
    at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t x = 0; x < width; ++x) {
          visit((row * width + x) * channels, (2 * row * 2 * width + 2 * x) * stride);
        }
      }
    });
  }
  std::int64_t below() const { return 2 * width * stride; }
};

Squares squares_of(at::IntArrayRef coarse, std::int64_t stride) {
  return {coarse[0] * coarse[2], coarse[3], coarse[1], stride};
}

/// `fine` has pixels of `stride` floats, of which the first are the coarse map's.
void copy_up(const Tensor& coarse, float* fine, std::int64_t stride) {
  const Squares squares = squares_of(coarse.sizes(), stride);
  const float* from = coarse.data_ptr<float>();
  const std::int64_t channels = squares.channels;
  squares.for_each([&](std::int64_t pixel, std::int64_t square) {
    for (const std::int64_t to :
         {square, square + stride, square + squares.below(), square + squares.below() + stride}) {
      std::copy_n(from + pixel, channels, fine + to);
    }
  });
}

void add_up(const Tensor& coarse, float* fine) {
  const Squares squares = squares_of(coarse.sizes(), coarse.size(1));
  const float* from = coarse.data_ptr<float>();
  const std::int64_t both = 2 * squares.channels, channels = squares.channels;
  squares.for_each([&](std::int64_t pixel, std::int64_t square) {
    const float* __restrict values = from + pixel;
    for (const std::int64_t start : {square, square + squares.below()}) {
      float* __restrict left = fine + start;
      for (std::int64_t c = 0; c < channels; ++c) {
        left[c] += values[c];
      }
      float* __restrict right = fine + start + both / 2;
      for (std::int64_t c = 0; c < channels; ++c) {
        right[c] += values[c];
      }
    }
  });
}

/// The sums over squares of the first channels of `fine` [N,*,2H,2W], as a map of `sizes`.
Tensor sum_down(const Tensor& fine, at::IntArrayRef sizes) {
  const Tensor from = fine.contiguous(kLast);
  Tensor coarse = at::empty(sizes, from.options(), kLast);
  const std::int64_t stride = from.size(1);
  const Squares squares = squares_of(sizes, stride);
  const float* values = from.data_ptr<float>();
  float* sums = coarse.data_ptr<float>();
  squares.for_each([&](std::int64_t pixel, std::int64_t square) {
    float* __restrict sum = sums + pixel;
    const float* __restrict upper = values + square;
    const float* __restrict lower = upper + squares.below();
    for (std::int64_t c = 0; c < squares.channels; ++c) {
      sum[c] = ((upper[c] + upper[c + stride]) + lower[c]) + lower[c + stride];
    }
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
    copy_up(coarse, fine.data_ptr<float>(), coarse.size(1));
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
    add_up(coarse, fine.data_ptr<float>());
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
    copy_up(coarse, both.data_ptr<float>(), stride);
    const float* from = fine.data_ptr<float>();
    float* to = both.data_ptr<float>() + above;
    at::parallel_for(0, fine.numel() / own, 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pixel = begin; pixel < end; ++pixel) {
        std::copy_n(from + pixel * own, own, to + pixel * stride);
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
  DETFORGE_CHECK(coarse.dim() == 4 && fine.dim() == 4 && fine.size(0) == coarse.size(0) &&
                     fine.size(2) == 2 * coarse.size(2) && fine.size(3) == 2 * coarse.size(3),
                 "the finer map is not twice as high and wide as the coarser one",
                 "pad the images so that the largest stride divides their sides");
}

bool is_for_own_code(const Tensor& map) {
  return is_channels_last(map) && map.is_cpu() && map.scalar_type() == at::kFloat;
}

}  // namespace

Tensor upsample_twice(const Tensor& coarse) {
  RECORD_FUNCTION("detforge::upsample_twice", {});
  if (is_for_own_code(coarse)) {
    return UpsampleFunction::apply(coarse);
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
  if (is_for_own_code(fine)) {
    return UpsampleAddFunction::apply(fine, coarse.contiguous(kLast));
  }
  Tensor sum = fine;
  return sum.add_(upsample_twice(coarse));
}

Tensor upsample_concat(const Tensor& coarse, const Tensor& fine) {
  RECORD_FUNCTION("detforge::upsample_concat", {});
  check(coarse, fine);
  if (is_for_own_code(fine)) {
    return UpsampleConcatFunction::apply(coarse.contiguous(kLast), fine);
  }
  return at::cat({upsample_twice(coarse), fine}, 1);
}

}  // namespace detforge
