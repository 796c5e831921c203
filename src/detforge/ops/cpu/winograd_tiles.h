#pragma once

#include "detforge/ops/cpu/blocks.h"
#include "detforge/ops/cpu/conv_kernels.h"

/// What Winograd's drivers share.
namespace detforge::cpu {

inline constexpr std::int64_t kPoints = 36;
/// Input channels at a time: a panel of filters fits in a L1 cache of 48 KiB.
inline constexpr std::int64_t kFilterDepth = 256;

/// The tiles of a batch, numbered image by image and row by row.
class TileGrid {
 public:
  explicit TileGrid(const MapShape& s)
      : rows_(ceil_div(s.height, kSide)),
        columns_(ceil_div(s.width, kSide)),
        count_(s.images * rows_ * columns_) {}
  std::int64_t count() const { return count_; }
  WinogradTile tile(std::int64_t index) const {
    return {.image = index / columns_ / rows_,
            .tile_y = index / columns_ % rows_,
            .tile_x = index % columns_};
  }

 private:
  static constexpr std::int64_t kSide = 4;
  std::int64_t rows_, columns_, count_;
};

}  // namespace detforge::cpu
