#include "detforge/ops/cpu/crop_rle_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "detforge/ops/cpu/roi_align_geometry.h"
#include "detforge/structures/rle_spans.h"

namespace detforge::cpu {
namespace {

constexpr float kMargin = 1e-3F;  // around 0.5: far above the rounding of thousands of samples

/// The part of a bitmap that a box reads, column by column, as 0 and 1.
class Patch {
 public:
  Patch(RleView mask, const AxisTaps& x, const AxisTaps& y)
      : x_(x.first),
        y_(y.first),
        rows_(y.last - y.first + 1),
        columns_(x.last - x.first + 1),
        values_(static_cast<std::size_t>(rows_ * columns_), 0.0F) {
    for_each_column_span(mask, [&](std::int64_t column, std::int64_t begin, std::int64_t end) {
      const std::int64_t from = std::max(begin - y_, std::int64_t{0});
      const std::int64_t to = std::min(end - y_, rows_);
      if (column >= x_ && column < x_ + columns_ && from < to) {
        std::fill_n(values_.begin() + (column - x_) * rows_ + from, to - from, 1.0F);
      }
    });
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Values of column x, from row y().
  const float* column(std::int64_t x) const { return values_.data() + (x - x_) * rows_; }
  float at(std::int64_t y, std::int64_t x) const { return column(x)[y - y_]; }

 private:
  std::int64_t x_, y_, rows_, columns_;
  std::vector<float> values_;
};

/// One axis of torchvision's sampling grid, in f32 and in its order of operations.
struct SampleAxis {
  float start, bin_size, samples;
  std::int64_t size;  // of the bitmap

  SampleAxis(float low, float high, std::int64_t bins, std::int64_t pixels)
      : start(low - 0.5F),
        bin_size((high - 0.5F - start) / static_cast<float>(bins)),
        samples(std::ceil(bin_size)),
        size(pixels) {}

  struct Sample {
    std::int64_t low, high;
    float fraction;
  };
  /// The samples of a bin that lie on the bitmap; the others read 0.
  std::vector<Sample> of_bin(std::int64_t bin) const {
    const float bin_start = start + static_cast<float>(bin) * bin_size;
    const auto range =
        roi_align_detail::samples_inside(bin_start, bin_size / samples, samples, size);
    std::vector<Sample> inside;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      float position = bin_start + (static_cast<float>(i) + 0.5F) * bin_size / samples;
      if (!(position >= -1.0F && position <= static_cast<float>(size))) {
        continue;
      }
      position = std::max(position, 0.0F);
      const auto low = static_cast<std::int64_t>(position);
      inside.push_back(low >= size - 1 ? Sample{size - 1, size - 1, 0.0F}
                                       : Sample{low, low + 1, position - static_cast<float>(low)});
    }
    return inside;
  }
};

/// The average of one bin as torchvision's kernel rounds it.
float exact_average(const Patch& patch,
                    const SampleAxis& y_axis,
                    const SampleAxis& x_axis,
                    std::int64_t by,
                    std::int64_t bx) {
  const std::vector<SampleAxis::Sample> columns = x_axis.of_bin(bx);
  float sum = 0.0F;
  for (const SampleAxis::Sample& y : y_axis.of_bin(by)) {
    const float above = 1.0F - y.fraction;
    for (const SampleAxis::Sample& x : columns) {
      const float left = 1.0F - x.fraction;
      // Weights of 0 may lie outside the patch, which ends where the weights do.
      const auto value = [&](float weight, std::int64_t row, std::int64_t column) {
        return weight == 0.0F ? 0.0F : weight * patch.at(row, column);
      };
      sum += value(above * left, y.low, x.low) + value(above * x.fraction, y.low, x.high) +
             value(y.fraction * left, y.high, x.low) +
             value(y.fraction * x.fraction, y.high, x.high);
    }
  }
  return sum / (y_axis.samples * x_axis.samples);
}

}  // namespace

// The average is separable: columns first, all rows of the patch at once. That rounds differently
// from torchvision, so the bins that come out next to 0.5 are computed again as torchvision does.
void crop_rle(RleView mask, const float* box, std::int64_t resolution, float* target) {
  const RoiAlignGeometry geometry{.height = mask.size.height,
                                  .width = mask.size.width,
                                  .bins_y = resolution,
                                  .bins_x = resolution,
                                  .spatial_scale = 1.0F,
                                  .sampling_ratio = 0,
                                  .aligned = true};
  const float roi[5] = {0.0F, box[0], box[1], box[2], box[3]};
  RoiTaps taps;
  make_roi_taps(geometry, roi, taps);
  std::fill_n(target, resolution * resolution, 0.0F);
  if (taps.empty()) {
    return;
  }
  const Patch patch(mask, taps.x, taps.y);
  const SampleAxis y_axis(box[1], box[3], resolution, mask.size.height);
  const SampleAxis x_axis(box[0], box[2], resolution, mask.size.width);
  std::vector<float> line(static_cast<std::size_t>(patch.rows()));
  for (std::int64_t bx = 0; bx < resolution; ++bx) {
    std::fill(line.begin(), line.end(), 0.0F);
    for (const auto* tap = taps.x.begin(bx); tap != taps.x.end(bx); ++tap) {
      const float* column = patch.column(tap->index);
      for (std::size_t y = 0; y < line.size(); ++y) {
        line[y] += tap->weight * column[y];
      }
    }
    for (std::int64_t by = 0; by < resolution; ++by) {
      float average = 0.0F;
      for (const auto* tap = taps.y.begin(by); tap != taps.y.end(by); ++tap) {
        average += tap->weight * line[static_cast<std::size_t>(tap->index - taps.y.first)];
      }
      if (std::abs(average - 0.5F) < kMargin) {
        average = exact_average(patch, y_axis, x_axis, by, bx);
      }
      target[by * resolution + bx] = average >= 0.5F ? 1.0F : 0.0F;
    }
  }
}

}  // namespace detforge::cpu
