#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace detforge::cpu {

/// How ROIs are cut into bins and samples; the same for forward and backward.
struct RoiAlignGeometry {
  std::int64_t height, width;  ///< feature map
  std::int64_t bins_y, bins_x;
  float spatial_scale;
  int sampling_ratio;  ///< 0: adaptive
  bool aligned;
};

/// One axis of one ROI. A bin's average over its grid of bilinear samples is separable: it is
/// sum over rows of y.weight * (sum over columns of x.weight * feature), where the taps of an axis
/// collect the weights of all its samples (already divided by their number). Samples that share a
/// row or column are merged, so a bin costs about (bin height + 1) * (bin width + 1) taps, not 4
/// per sample.
struct AxisTaps {
  struct Tap {
    std::int32_t index;
    float weight;
  };
  std::vector<Tap> taps;
  std::vector<std::int32_t> bin_begin;  ///< taps of bin b: bin_begin[b] to bin_begin[b + 1]
  std::int32_t first = 0,
               last = -1;  ///< smallest and largest index of all taps; last < first: none

  const Tap* begin(std::int64_t bin) const {
    return taps.data() + bin_begin[static_cast<std::size_t>(bin)];
  }
  const Tap* end(std::int64_t bin) const {
    return taps.data() + bin_begin[static_cast<std::size_t>(bin) + 1];
  }
};

namespace roi_align_detail {

/// Adds to the taps of the current bin, which start at `bin_start`. Samples are monotone, so an
/// index that occurred before is one of the last two.
inline void add_tap(AxisTaps& axis, std::size_t bin_start, std::int32_t index, float weight) {
  if (weight == 0.0F) {
    return;
  }
  const std::size_t oldest = std::max(bin_start + 2, axis.taps.size()) - 2;
  for (std::size_t i = axis.taps.size(); i-- > oldest;) {
    if (axis.taps[i].index == index) {
      axis.taps[i].weight += weight;
      return;
    }
  }
  axis.taps.push_back({index, weight});
}

/// The two cells that a sample at `position` reads. Outside -1..size it reads nothing; between the
/// outermost pixel centre and that limit the border cell counts alone.
inline void add_sample(
    AxisTaps& axis, std::size_t bin_start, float position, std::int64_t size, float weight) {
  if (!(position >= -1.0F && position <= static_cast<float>(size))) {
    return;
  }
  position = std::max(position, 0.0F);
  const auto low = static_cast<std::int32_t>(position);
  if (low >= size - 1) {
    add_tap(axis, bin_start, static_cast<std::int32_t>(size - 1), weight);
    return;
  }
  const float fraction = position - static_cast<float>(low);
  add_tap(axis, bin_start, low, weight * (1.0F - fraction));
  add_tap(axis, bin_start, low + 1, weight * fraction);
}

/// Range of samples [begin, end) that can lie inside the map, with a margin for rounding: an ROI
/// far larger than the map then costs no more than one of the map's size. Empty if a value is not
/// finite, as the step of a bin without samples.
struct SampleRange {
  std::int64_t begin, end;
};
inline SampleRange samples_inside(double bin_start,
                                  double step,
                                  double samples,
                                  std::int64_t size) {
  if (!std::isfinite(bin_start) || !std::isfinite(step) || !std::isfinite(samples)) {
    return {0, 0};
  }
  samples = std::min(samples, 0x1p62);  // what an integer holds
  if (step <= 0.0) {
    return {0, static_cast<std::int64_t>(samples)};
  }
  const double begin = std::floor((-1.0 - bin_start) / step) - 2.0;
  const double end = std::ceil((static_cast<double>(size) - bin_start) / step) + 2.0;
  return {static_cast<std::int64_t>(std::clamp(begin, 0.0, samples)),
          static_cast<std::int64_t>(std::clamp(end, 0.0, samples))};
}

}  // namespace roi_align_detail

/// Taps of one axis for the ROI side from `low` to `high` in image pixels. All arithmetic that
/// decides where samples lie is in f32 and in the order of Detectron2's kernel, so that the same
/// cells are read.
inline void make_axis_taps(const RoiAlignGeometry& g,
                           float low,
                           float high,
                           std::int64_t bins,
                           std::int64_t size,
                           AxisTaps& axis) {
  namespace detail = roi_align_detail;
  const float offset = g.aligned ? 0.5F : 0.0F;
  const float start = low * g.spatial_scale - offset;
  float length = high * g.spatial_scale - offset - start;
  if (!g.aligned) {
    length = std::max(length, 1.0F);  // the original forced ROIs to at least one cell
  }
  const float bin_size = length / static_cast<float>(bins);
  // An empty or inverted ROI has no adaptive samples and pools to 0.
  const float samples = g.sampling_ratio > 0 ? static_cast<float>(g.sampling_ratio)
                                             : std::max(std::ceil(bin_size), 0.0F);
  const float weight = samples > 0.0F ? 1.0F / samples : 0.0F;
  axis.taps.clear();
  axis.bin_begin.assign(1, 0);
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const std::size_t bin_taps = axis.taps.size();
    const float bin_start = start + static_cast<float>(bin) * bin_size;
    const auto range = detail::samples_inside(bin_start, bin_size / samples, samples, size);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float position = bin_start + (static_cast<float>(i) + 0.5F) * bin_size / samples;
      detail::add_sample(axis, bin_taps, position, size, weight);
    }
    axis.bin_begin.push_back(static_cast<std::int32_t>(axis.taps.size()));
  }
  axis.first = static_cast<std::int32_t>(size);
  axis.last = -1;
  for (const AxisTaps::Tap& tap : axis.taps) {
    axis.first = std::min(axis.first, tap.index);
    axis.last = std::max(axis.last, tap.index);
  }
}

/// An ROI ready to be pooled. `x.last < x.first` (or y) means that nothing of it lies on the map.
struct RoiTaps {
  std::int64_t image = 0;
  AxisTaps y, x;

  bool empty() const { return y.last < y.first || x.last < x.first; }
};

/// roi: batch index, x1, y1, x2, y2 in image pixels, finite.
inline void make_roi_taps(const RoiAlignGeometry& g, const float* roi, RoiTaps& taps) {
  taps.image = static_cast<std::int64_t>(roi[0]);
  make_axis_taps(g, roi[1], roi[3], g.bins_x, g.width, taps.x);
  make_axis_taps(g, roi[2], roi[4], g.bins_y, g.height, taps.y);
}

}  // namespace detforge::cpu
