#pragma once

#include "detforge/ops/cpu/panel_kernels.h"
#include "detforge/ops/cpu/winograd_transforms.h"

/// Winograd's transforms of one tile, `kLanes` channels at a time.
namespace detforge::cpu {
namespace {

constexpr std::int64_t kTile = 4, kPatch = 6;

/// The place of channel c in a tile's values.
inline std::int64_t place(const WinogradLayout& layout, std::int64_t c) {
  return c / kTileColumns * layout.panel_stride + c % kTileColumns;
}

/// kSide x kSide pixels of kLanes channels from (y, x) on; zeros outside the map.
template <int kSide, typename T>
inline __attribute__((always_inline)) void load_pixels(const T* map,
                                                       const MapShape& s,
                                                       std::int64_t y,
                                                       std::int64_t x,
                                                       bool inside,
                                                       Register* pixels) {
  if (inside) {
    const T* corner = map + (y * s.width + x) * s.channels;
#pragma GCC unroll 36
    for (int i = 0; i < kSide * kSide; ++i) {
      pixels[i] = Vector::load(corner + (i / kSide * s.width + i % kSide) * s.channels);
    }
    return;
  }
  for (int i = 0; i < kSide * kSide; ++i) {
    const std::int64_t row = y + i / kSide, column = x + i % kSide;
    const bool exists = row >= 0 && row < s.height && column >= 0 && column < s.width;
    pixels[i] = exists ? Vector::load(map + (row * s.width + column) * s.channels) : Vector::zero();
  }
}

template <typename T>
void winograd_input_of(const T* map,
                       const MapShape& s,
                       const WinogradTile& tile,
                       const WinogradLayout& layout,
                       float* values) {
  const std::int64_t y = tile.tile_y * kTile - 1, x = tile.tile_x * kTile - 1;
  const bool inside = y >= 0 && x >= 0 && y + kPatch <= s.height && x + kPatch <= s.width;
  const T* image = map + tile.image * s.height * s.width * s.channels;
  for (std::int64_t c = 0; c < s.channels; c += kLanes) {
    Register pixels[36], half[36], row[6];
    load_pixels<6>(image + c, s, y, x, inside, pixels);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      transform_input<6>(pixels + i, half + i);
    }
    float* to = values + place(layout, c);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      transform_input<1>(half + 6 * i, row);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) {
        Vector::store(to + (6 * i + j) * layout.point_stride, row[j]);
      }
    }
  }
}

void winograd_input(const ConstMap& map,
                    const MapShape& s,
                    const WinogradTile& tile,
                    const WinogradLayout& layout,
                    float* values) {
  for_storage(map.storage(), [&](auto* type) {
    winograd_input_of(map.as<std::remove_pointer_t<decltype(type)>>(), s, tile, layout, values);
  });
}

template <typename T>
void winograd_output_as(const float* values,
                        const WinogradLayout& layout,
                        const WinogradTile& tile,
                        const MapShape& s,
                        const ChannelRange& channels,
                        const Epilogue& e,
                        T* map) {
  const T* residuals = e.residual.as<T>();
  const std::int64_t y = tile.tile_y * kTile, x = tile.tile_x * kTile;
  const std::int64_t rows = smaller(kTile, s.height - y), columns = smaller(kTile, s.width - x);
  const std::int64_t corner = ((tile.image * s.height + y) * s.width + x) * s.channels;
  for (std::int64_t c = channels.first; c < channels.end; c += kLanes) {
    Register point[36], half[24], pixel[16];
    const float* from = values + place(layout, c - channels.first);
#pragma GCC unroll 36
    for (int i = 0; i < 36; ++i) {
      point[i] = Vector::load(from + i * layout.point_stride);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      transform_output<6, 6>(point + i, half + i);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      transform_output<1, 1>(half + 6 * i, pixel + 4 * i);
    }
    const Register bias = e.bias == nullptr ? Vector::zero() : Vector::load(e.bias + c);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t at = corner + (i * s.width + j) * s.channels + c;
        const T* residual = residuals == nullptr ? nullptr : residuals + at;
        Vector::store(map + at, finish(pixel[i * 4 + j], bias, residual, kLanes, e));
      }
    }
  }
}

void winograd_output(const float* values,
                     const WinogradLayout& layout,
                     const WinogradTile& tile,
                     const MapShape& s,
                     const ChannelRange& channels,
                     const Epilogue& e,
                     const Map& map) {
  for_storage(map.storage(), [&](auto* type) {
    winograd_output_as(values, layout, tile, s, channels, e,
                       map.as<std::remove_pointer_t<decltype(type)>>());
  });
}

template <typename T>
void winograd_output_gradient_of(const T* map,
                                 const MapShape& s,
                                 const WinogradTile& tile,
                                 const WinogradLayout& layout,
                                 float* values) {
  const std::int64_t y = tile.tile_y * kTile, x = tile.tile_x * kTile;
  const bool inside = y + kTile <= s.height && x + kTile <= s.width;
  const T* image = map + tile.image * s.height * s.width * s.channels;
  for (std::int64_t c = 0; c < s.channels; c += kLanes) {
    Register pixels[16], half[24], row[6];
    load_pixels<4>(image + c, s, y, x, inside, pixels);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      transform_output_gradient<4, 4>(pixels + i, half + i);
    }
    float* to = values + place(layout, c);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      transform_output_gradient<1, 1>(half + 4 * i, row);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) {
        Vector::store(to + (6 * i + j) * layout.point_stride, row[j]);
      }
    }
  }
}

void winograd_output_gradient(const ConstMap& map,
                              const MapShape& s,
                              const WinogradTile& tile,
                              const WinogradLayout& layout,
                              float* values) {
  for_storage(map.storage(), [&](auto* type) {
    winograd_output_gradient_of(map.as<std::remove_pointer_t<decltype(type)>>(), s, tile, layout,
                                values);
  });
}

void winograd_filter(const FilterView& filters,
                     std::int64_t first_output,
                     std::int64_t inputs,
                     std::int64_t point_stride,
                     float* values) {
  const float* source = filters.data + first_output * filters.output_stride;
  const auto stride = static_cast<std::int32_t>(filters.output_stride);
  for (std::int64_t c = 0; c < inputs; ++c) {
    Register taps[9], half[18], row[6];
    for (int t = 0; t < 9; ++t) {
      taps[filters.flipped ? 8 - t : t] =
          Vector::gather(source + c * filters.input_stride + t, stride, kLanes);
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      transform_filter<3, 3>(taps + i, half + i);
    }
    float* to = values + c * kTileColumns;
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      transform_filter<1, 1>(half + 3 * i, row);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) {
        Vector::store(to + (6 * i + j) * point_stride, row[j]);
      }
    }
  }
}

void winograd_filter_gradient(const float* values,
                              std::int64_t point_stride,
                              std::int64_t inputs,
                              float* gradient) {
  for (std::int64_t c = 0; c < inputs; c += kLanes) {
    Register point[36], half[18], taps[9];
    for (int i = 0; i < 36; ++i) {
      point[i] = Vector::load(values + c + i * point_stride);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      transform_filter_gradient<6, 6>(point + i, half + i);
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      transform_filter_gradient<1, 1>(half + 6 * i, taps + 3 * i);
    }
    alignas(64) float lanes[9][kLanes];
    for (int t = 0; t < 9; ++t) {
      Vector::store(lanes[t], taps[t]);
    }
    float* to = gradient + c * 9;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      for (int t = 0; t < 9; ++t) {
        *to++ = lanes[t][lane];
      }
    }
  }
}

}  // namespace
}  // namespace detforge::cpu
