#include "detforge/ops/cpu/max_pool_kernel.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "detforge/ops/cpu/map_values.h"

namespace detforge::cpu {
namespace {

/// The part of a window along one axis that lies on the map.
struct Window {
  std::int64_t first, end;  ///< on the map
  std::int64_t start;       ///< of the whole window
};

DETFORGE_KERNEL_INLINE Window window_at(const MaxPoolShape& s,
                                        std::int64_t index,
                                        std::int64_t size) {
  const std::int64_t start = index * s.stride - s.padding;
  return {std::max<std::int64_t>(start, 0), std::min(start + s.kernel, size), start};
}

/// One output row, without positions; `window`: the map from the window's first row on.
DETFORGE_KERNEL_INLINE void pool_row(const MaxPoolShape& s,
                                     std::int64_t row,
                                     const float* window,
                                     float* output) {
  const Window y = window_at(s, row, s.height);
  for (std::int64_t column = 0; column < s.out_width; ++column, output += s.channels) {
    const Window x = window_at(s, column, s.width);
    std::fill_n(output, s.channels, s.relu ? 0.0F : -std::numeric_limits<float>::infinity());
    for (std::int64_t iy = y.first; iy < y.end; ++iy) {
      for (std::int64_t ix = x.first; ix < x.end; ++ix) {
        const float* __restrict cell = window + ((iy - y.first) * s.width + ix) * s.channels;
        float* __restrict highest = output;
        for (std::int64_t c = 0; c < s.channels; ++c) {
          const bool is_higher = cell[c] > highest[c] || cell[c] != cell[c];
          highest[c] = is_higher ? cell[c] : highest[c];
        }
      }
    }
  }
}

/// The same with positions; `at`: room for one of each channel.
DETFORGE_KERNEL_INLINE void pool_row_with_positions(const MaxPoolShape& s,
                                                    std::int64_t row,
                                                    const float* window,
                                                    float* output,
                                                    std::int32_t* __restrict at,
                                                    std::uint8_t* positions) {
  const Window y = window_at(s, row, s.height);
  for (std::int64_t column = 0; column < s.out_width; ++column, output += s.channels) {
    const Window x = window_at(s, column, s.width);
    std::fill_n(output, s.channels, s.relu ? 0.0F : -std::numeric_limits<float>::infinity());
    // A window of nothing but -infinity has its first value for the highest.
    const std::int64_t first = (y.first - y.start) * s.kernel + x.first - x.start;
    std::fill_n(at, s.channels, s.relu ? kNoPosition : static_cast<std::int32_t>(first));
    for (std::int64_t iy = y.first; iy < y.end; ++iy) {
      for (std::int64_t ix = x.first; ix < x.end; ++ix) {
        const float* __restrict cell = window + ((iy - y.first) * s.width + ix) * s.channels;
        float* __restrict highest = output;
        const auto position = static_cast<std::int32_t>((iy - y.start) * s.kernel + ix - x.start);
        for (std::int64_t c = 0; c < s.channels; ++c) {
          const bool is_higher = cell[c] > highest[c] || cell[c] != cell[c];
          highest[c] = is_higher ? cell[c] : highest[c];
          at[c] = is_higher ? position : at[c];
        }
      }
    }
    for (std::int64_t c = 0; c < s.channels; ++c) {
      *positions++ = static_cast<std::uint8_t>(at[c]);
    }
  }
}

/// Adds an output row's gradients to the rows [first, end) of a map, which start at `rows`.
DETFORGE_KERNEL_INLINE void spread_row(const MaxPoolShape& s,
                                       std::int64_t row,
                                       std::int64_t first,
                                       std::int64_t end,
                                       const float* grad,
                                       const std::uint8_t* positions,
                                       float* rows) {
  const Window y = window_at(s, row, s.height);
  for (std::int64_t column = 0; column < s.out_width;
       ++column, grad += s.channels, positions += s.channels) {
    const Window x = window_at(s, column, s.width);
    for (std::int64_t iy = std::max(y.first, first); iy < std::min(y.end, end); ++iy) {
      for (std::int64_t ix = x.first; ix < x.end; ++ix) {
        const float* __restrict from = grad;
        float* __restrict to = rows + ((iy - first) * s.width + ix) * s.channels;
        const auto position = static_cast<std::uint8_t>((iy - y.start) * s.kernel + ix - x.start);
        for (std::int64_t c = 0; c < s.channels; ++c) {
          to[c] += positions[c] == position ? from[c] : 0.0F;
        }
      }
    }
  }
}

struct Kernels {
  void (*pool_row)(const MaxPoolShape&, std::int64_t, const float*, float*);
  void (*pool_row_with_positions)(
      const MaxPoolShape&, std::int64_t, const float*, float*, std::int32_t*, std::uint8_t*);
  void (*spread_row)(const MaxPoolShape&,
                     std::int64_t,
                     std::int64_t,
                     std::int64_t,
                     const float*,
                     const std::uint8_t*,
                     float*);
};

#define DETFORGE_MAX_POOL_BUILD(TARGET, NAME)                                                      \
  TARGET void pool_row_##NAME(const MaxPoolShape& s, std::int64_t row, const float* window,        \
                              float* output) {                                                     \
    pool_row(s, row, window, output);                                                              \
  }                                                                                                \
  TARGET void pool_row_with_positions_##NAME(const MaxPoolShape& s, std::int64_t row,              \
                                             const float* window, float* output, std::int32_t* at, \
                                             std::uint8_t* positions) {                            \
    pool_row_with_positions(s, row, window, output, at, positions);                                \
  }                                                                                                \
  TARGET void spread_row_##NAME(const MaxPoolShape& s, std::int64_t row, std::int64_t first,       \
                                std::int64_t end, const float* grad,                               \
                                const std::uint8_t* positions, float* rows) {                      \
    spread_row(s, row, first, end, grad, positions, rows);                                         \
  }                                                                                                \
  constexpr Kernels k##NAME{pool_row_##NAME, pool_row_with_positions_##NAME, spread_row_##NAME};

DETFORGE_MAX_POOL_BUILD(, Portable)
DETFORGE_MAX_POOL_BUILD(DETFORGE_TARGET_AVX2, Avx2)
#undef DETFORGE_MAX_POOL_BUILD

const Kernels& kernels_of(KernelBuild build) {
  return build == KernelBuild::kPortable ? kPortable : kAvx2;
}

}  // namespace

void max_pool_forward(const MaxPoolShape& s,
                      const ConstMap& input,
                      const Map& output,
                      std::uint8_t* positions,
                      KernelBuild build) {
  const Kernels& kernels = kernels_of(build);
  const std::int64_t row_size = s.out_width * s.channels, map_row = s.width * s.channels;
  const std::int64_t converts = input.storage() == Storage::kFloat ? 0 : 1;
#pragma omp parallel
  {
    std::vector<std::int32_t> at(static_cast<std::size_t>(s.channels));
    std::vector<float> rows(static_cast<std::size_t>(converts * s.kernel * map_row));
    std::vector<float> pooled(static_cast<std::size_t>(converts * row_size));
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < s.images * s.out_height; ++row) {
      // The rows of the window, of which the first is the kernels' row 0.
      const std::int64_t out_row = row % s.out_height;
      const Window y = window_at(s, out_row, s.height);
      const ConstMap first = input + (row / s.out_height * s.height + y.first) * map_row;
      const float* window = read_values(first, (y.end - y.first) * map_row, rows.data());
      float* to = place_of(output + row * row_size, pooled.data());
      if (positions == nullptr) {
        kernels.pool_row(s, out_row, window, to);
      } else {
        kernels.pool_row_with_positions(s, out_row, window, to, at.data(),
                                        positions + row * row_size);
      }
      finish_values(to, row_size, output + row * row_size);
    }
  }
}

void max_pool_backward(const MaxPoolShape& s,
                       const ConstMap& grad_output,
                       const std::uint8_t* positions,
                       const Map& grad_input,
                       KernelBuild build) {
  constexpr std::int64_t kBand = 8;  // rows that a thread zeroes and sums up while they are cached
  const Kernels& kernels = kernels_of(build);
  const std::int64_t row_size = s.out_width * s.channels, map_row = s.width * s.channels;
  const std::int64_t bands = (s.height + kBand - 1) / kBand;
  const std::int64_t converts = grad_input.storage() == Storage::kFloat ? 0 : 1;
#pragma omp parallel
  {
    std::vector<float> sums(static_cast<std::size_t>(converts * kBand * map_row));
    std::vector<float> grads(static_cast<std::size_t>(converts * row_size));
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t n = 0; n < s.images; ++n) {
      for (std::int64_t band = 0; band < bands; ++band) {
        const std::int64_t first = band * kBand, end = std::min(first + kBand, s.height);
        const Map to = grad_input + (n * s.height + first) * map_row;
        float* rows = place_of(to, sums.data());
        std::fill_n(rows, (end - first) * map_row, 0.0F);
        // Windows from the first to the last that reach into the band.
        const std::int64_t reach = first + s.padding - s.kernel + 1;
        const std::int64_t first_row = reach <= 0 ? 0 : (reach + s.stride - 1) / s.stride;
        const std::int64_t end_row = std::min((end - 1 + s.padding) / s.stride + 1, s.out_height);
        for (std::int64_t row = first_row; row < end_row; ++row) {
          const std::int64_t at = (n * s.out_height + row) * row_size;
          kernels.spread_row(s, row, first, end,
                             read_values(grad_output + at, row_size, grads.data()), positions + at,
                             rows);
        }
        finish_values(rows, (end - first) * map_row, to);
      }
    }
  }
}

}  // namespace detforge::cpu
