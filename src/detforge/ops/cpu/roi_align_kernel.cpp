#include "detforge/ops/cpu/roi_align_kernel.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "detforge/ops/cpu/map_values.h"
#include "detforge/ops/cpu/roi_align_channels.h"
#include "detforge/ops/cpu/roi_align_planes.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kBandBytes = 1 << 21;  ///< of a gradient that a thread sums up at a time

/// Everything of a call but the buffers.
struct Work {
  const RoiAlignShape& shape;
  std::vector<RoiTaps> rois;
  std::vector<std::size_t> levels;  ///< of each ROI
  std::int64_t bins;

  const RoiAlignGeometry& geometry(std::size_t roi) const { return shape.levels[levels[roi]]; }
  std::int64_t map_size(std::size_t level) const {
    return shape.channels * shape.levels[level].height * shape.levels[level].width;
  }
  std::int64_t pooled_size() const { return shape.channels * bins; }
  std::int64_t widest_map() const {
    std::int64_t widest = 0;
    for (const RoiAlignGeometry& level : shape.levels) {
      widest = std::max(widest, level.width);
    }
    return widest;
  }
};

Work make_work(const RoiAlignShape& shape, const RoiList& list) {
  const auto count = static_cast<std::size_t>(shape.roi_count);
  Work work{.shape = shape,
            .rois = std::vector<RoiTaps>(count),
            .levels = std::vector<std::size_t>(count),
            .bins = shape.levels.front().bins_y * shape.levels.front().bins_x};
#pragma omp parallel for schedule(static)
  for (std::size_t r = 0; r < count; ++r) {
    work.levels[r] = list.levels == nullptr ? 0 : static_cast<std::size_t>(list.levels[r]);
    make_roi_taps(work.geometry(r), list.rois + r * 5, work.rois[r]);
  }
  return work;
}

/// Floats for one thread, at the start of a cache line.
class Scratch {
 public:
  explicit Scratch(std::int64_t size) : storage_(static_cast<std::size_t>(size) + kLine) {}
  float* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (kLine - address / sizeof(float) % kLine) % kLine;
  }

 private:
  static constexpr std::size_t kLine = 64 / sizeof(float);
  std::vector<float> storage_;
};

// The code of one ROI, once for each instruction set.

using PlaneFunction =
    void (*)(const RoiAlignGeometry&, const RoiTaps&, const float* from, float* line, float* to);
using PoolFunction = void (*)(const RoiAlignGeometry&,
                              std::int64_t channels,
                              const RoiTaps&,
                              const float* map,
                              float* line,
                              float* pooled,
                              std::int64_t pooled_stride);
using SpreadFunction = void (*)(const RoiAlignGeometry&,
                                std::int64_t channels,
                                const RoiTaps&,
                                std::int64_t first_row,
                                std::int64_t end_row,
                                const float* pooled,
                                float* line,
                                float* map);

struct Kernels {
  PlaneFunction pool_plane, spread_plane;
  PoolFunction pool_channels;
  SpreadFunction spread_channels;
};

#define DETFORGE_ROI_ALIGN_BUILD(TARGET, NAME, LANES)                                             \
  TARGET void pool_plane_##NAME(const RoiAlignGeometry& g, const RoiTaps& roi, const float* from, \
                                float* line, float* to) {                                         \
    pool_plane(g, roi, from, line, to);                                                           \
  }                                                                                               \
  TARGET void spread_plane_##NAME(const RoiAlignGeometry& g, const RoiTaps& roi,                  \
                                  const float* from, float* line, float* to) {                    \
    spread_plane(g, roi, from, line, to);                                                         \
  }                                                                                               \
  TARGET void pool_channels_##NAME(const RoiAlignGeometry& g, std::int64_t channels,              \
                                   const RoiTaps& roi, const float* map, float* line,             \
                                   float* pooled, std::int64_t pooled_stride) {                   \
    pool_channels<LANES>(g, channels, roi, map, line, pooled, pooled_stride);                     \
  }                                                                                               \
  TARGET void spread_channels_##NAME(const RoiAlignGeometry& g, std::int64_t channels,            \
                                     const RoiTaps& roi, std::int64_t first_row,                  \
                                     std::int64_t end_row, const float* pooled, float* line,      \
                                     float* map) {                                                \
    spread_channels<LANES>(g, channels, roi, first_row, end_row, pooled, line, map);              \
  }                                                                                               \
  constexpr Kernels k##NAME{pool_plane_##NAME, spread_plane_##NAME, pool_channels_##NAME,         \
                            spread_channels_##NAME};

DETFORGE_ROI_ALIGN_BUILD(, Portable, 4)
DETFORGE_ROI_ALIGN_BUILD(DETFORGE_TARGET_AVX2, Avx2, 8)
#undef DETFORGE_ROI_ALIGN_BUILD

const Kernels& kernels_of(KernelBuild build) {
  return build == KernelBuild::kPortable ? kPortable : kAvx2;
}

// NCHW: units of parallel work are channels of one image; they share nothing, in either direction.

/// Calls visit(roi, level, first plane of the channel, position of its pooled values, scratch).
template <typename Visit>
void for_each_plane(const Work& work, const Visit& visit) {
  const RoiAlignShape& s = work.shape;
#pragma omp parallel
  {
    Scratch line(work.widest_map());
#pragma omp for collapse(2) schedule(dynamic)
    for (std::int64_t image = 0; image < s.images; ++image) {
      for (std::int64_t c = 0; c < s.channels; ++c) {
        for (std::size_t r = 0; r < work.rois.size(); ++r) {
          const RoiAlignGeometry& g = work.geometry(r);
          if (work.rois[r].image == image && !work.rois[r].empty()) {
            visit(r, work.levels[r], (image * s.channels + c) * g.height * g.width,
                  static_cast<std::int64_t>(r) * work.pooled_size() + c * work.bins, line.data());
          }
        }
      }
    }
  }
}

/// A ROI's values [bins,C] while they change layout: rows a power of two apart would meet in the
/// same few sets of the cache.
std::int64_t padded_stride(std::int64_t channels) {
  return channels + 16;
}

/// [bins,C], rows padded_stride() apart -> [C,bins]
void channels_to_rows(const float* padded, std::int64_t count, std::int64_t bins, float* rows) {
  for (std::int64_t c = 0; c < count; ++c) {
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      *rows++ = padded[bin * padded_stride(count) + c];
    }
  }
}

/// The cells of one ROI as floats, where the map has another storage.
class RoiCells {
 public:
  /// The part of `map`, one image of geometry `g`, that the ROI's taps read.
  void load(const RoiAlignGeometry& g, const RoiTaps& roi, std::int64_t channels, ConstMap map) {
    const std::int64_t span = roi.x.last - roi.x.first + 1, rows = roi.y.last - roi.y.first + 1;
    cells_.resize(static_cast<std::size_t>(span * rows * channels));
    for (std::int64_t y = 0; y < rows; ++y) {
      const std::int64_t at = ((roi.y.first + y) * g.width + roi.x.first) * channels;
      conv_kernels()->load_values(map + at, span * channels, cells_.data() + y * span * channels);
    }
    geometry_ = g;
    geometry_.width = span;
    offset_ = (roi.y.first * span + roi.x.first) * channels;
  }
  /// A map on which the taps find those cells.
  const float* map() const { return cells_.data() - offset_; }
  const RoiAlignGeometry& geometry() const { return geometry_; }

 private:
  std::vector<float> cells_;
  RoiAlignGeometry geometry_{};
  std::int64_t offset_ = 0;
};

void pool_nhwc(const Work& work,
               const std::vector<ConstMap>& maps,
               const Map& pooled,
               const Kernels& kernels) {
  const RoiAlignShape& s = work.shape;
  const bool to_rows = s.pooled == MapLayout::kNchw;
  const bool converts = pooled.storage() != Storage::kFloat;
#pragma omp parallel
  {
    Scratch line(work.widest_map() * s.channels);
    Scratch padded(to_rows ? work.bins * padded_stride(s.channels) : 0);
    Scratch values(converts ? work.pooled_size() : 0);
    RoiCells cells;
#pragma omp for schedule(dynamic, 4)
    for (std::size_t r = 0; r < work.rois.size(); ++r) {
      const RoiTaps& roi = work.rois[r];
      if (roi.empty()) {
        continue;
      }
      const ConstMap map = maps[work.levels[r]] + roi.image * work.map_size(work.levels[r]);
      if (converts) {
        cells.load(work.geometry(r), roi, s.channels, map);
      }
      const Map result = pooled + static_cast<std::int64_t>(r) * work.pooled_size();
      float* to = place_of(result, values.data());
      kernels.pool_channels(converts ? cells.geometry() : work.geometry(r), s.channels, roi,
                            converts ? cells.map() : map.as<float>(), line.data(),
                            to_rows ? padded.data() : to,
                            to_rows ? padded_stride(s.channels) : s.channels);
      if (to_rows) {
        channels_to_rows(padded.data(), s.channels, work.bins, to);
      }
      finish_values(to, work.pooled_size(), result);
    }
  }
}

/// Rows [first, end) of the map of one level and image: what one thread sums up.
struct Band {
  std::size_t level;
  std::int64_t image, first, end;
};

std::vector<Band> make_bands(const RoiAlignShape& s) {
  std::vector<Band> bands;
  for (std::size_t level = 0; level < s.levels.size(); ++level) {
    const RoiAlignGeometry& g = s.levels[level];
    const auto row_bytes = static_cast<std::int64_t>(sizeof(float)) * g.width * s.channels;
    const std::int64_t rows =
        std::clamp<std::int64_t>(kBandBytes / std::max<std::int64_t>(row_bytes, 1), 4, 32);
    for (std::int64_t image = 0; image < s.images; ++image) {
      for (std::int64_t first = 0; first < g.height; first += rows) {
        bands.push_back({level, image, first, std::min(first + rows, g.height)});
      }
    }
  }
  return bands;
}

/// Zeroes a band, whose first row is at `rows`, and adds what every ROI that reaches into it
/// spreads there.
void spread_band(const Work& work,
                 const Band& band,
                 const float* pooled,
                 float* line,
                 float* rows,
                 const Kernels& kernels) {
  const RoiAlignGeometry& g = work.shape.levels[band.level];
  const std::int64_t row = g.width * work.shape.channels;
  float* map = rows - band.first * row;
  std::fill(rows, rows + (band.end - band.first) * row, 0.0F);
  for (std::size_t r = 0; r < work.rois.size(); ++r) {
    const RoiTaps& roi = work.rois[r];
    if (work.levels[r] == band.level && roi.image == band.image && !roi.empty() &&
        roi.y.first < band.end && roi.y.last >= band.first) {
      kernels.spread_channels(g, work.shape.channels, roi, band.first, band.end,
                              pooled + static_cast<std::int64_t>(r) * work.pooled_size(), line,
                              map);
    }
  }
}

}  // namespace

void roi_align_forward(const RoiAlignShape& shape,
                       const std::vector<ConstMap>& maps,
                       const RoiList& rois,
                       const Map& pooled,
                       KernelBuild build) {
  const Work work = make_work(shape, rois);
  const Kernels& kernels = kernels_of(build);
  for (std::size_t r = 0; r < work.rois.size(); ++r) {
    if (work.rois[r].empty()) {  // off the map
      const Map result = pooled + static_cast<std::int64_t>(r) * work.pooled_size();
      std::memset(result.as<void>(), 0,
                  static_cast<std::size_t>(work.pooled_size() * bytes_of(result.storage())));
    }
  }
  if (shape.maps == MapLayout::kNhwc) {
    pool_nhwc(work, maps, pooled, kernels);
    return;
  }
  for_each_plane(work, [&](std::size_t r, std::size_t level, std::int64_t plane,
                           std::int64_t position, float* line) {
    kernels.pool_plane(work.geometry(r), work.rois[r], maps[level].as<float>() + plane, line,
                       pooled.as<float>() + position);
  });
}

void roi_align_backward(const RoiAlignShape& shape,
                        const float* grad_pooled,
                        const RoiList& rois,
                        const std::vector<Map>& grad_maps,
                        KernelBuild build) {
  const Work work = make_work(shape, rois);
  const Kernels& kernels = kernels_of(build);
  if (shape.maps == MapLayout::kNhwc) {
    const std::vector<Band> bands = make_bands(shape);
#pragma omp parallel
    {
      Scratch line(work.widest_map() * shape.channels);
      std::vector<float> sums;
#pragma omp for schedule(dynamic)
      for (const Band& band : bands) {
        const std::int64_t row = shape.levels[band.level].width * shape.channels;
        const std::int64_t size = (band.end - band.first) * row;
        const Map to =
            grad_maps[band.level] + (band.image * work.map_size(band.level) + band.first * row);
        sums.resize(to.storage() == Storage::kFloat ? 0 : static_cast<std::size_t>(size));
        float* rows = place_of(to, sums.data());
        spread_band(work, band, grad_pooled, line.data(), rows, kernels);
        finish_values(rows, size, to);
      }
    }
    return;
  }
  for (std::size_t level = 0; level < grad_maps.size(); ++level) {
    std::fill_n(grad_maps[level].as<float>(), shape.images * work.map_size(level), 0.0F);
  }
  for_each_plane(work, [&](std::size_t r, std::size_t level, std::int64_t plane,
                           std::int64_t position, float* line) {
    kernels.spread_plane(work.geometry(r), work.rois[r], grad_pooled + position, line,
                         grad_maps[level].as<float>() + plane);
  });
}

void roi_align_rows_to_channels(const RoiAlignShape& shape, const float* rows, float* channels) {
  const std::int64_t bins = shape.levels.front().bins_y * shape.levels.front().bins_x;
  const std::int64_t count = shape.channels, stride = padded_stride(count);
#pragma omp parallel
  {
    Scratch padded(bins * stride);
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < shape.roi_count; ++r) {
      const float* from = rows + r * count * bins;
      for (std::int64_t c = 0; c < count; ++c) {
        for (std::int64_t bin = 0; bin < bins; ++bin) {
          padded.data()[bin * stride + c] = *from++;
        }
      }
      for (std::int64_t bin = 0; bin < bins; ++bin) {
        std::copy_n(padded.data() + bin * stride, count, channels + (r * bins + bin) * count);
      }
    }
  }
}

}  // namespace detforge::cpu
