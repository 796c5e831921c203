#include "detforge/ops/cpu/paste_mask_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "detforge/structures/rle_builder.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kWorthSearching = 16;  // rows; fewer are interpolated one by one

/// Where the pixel centres [begin, end) of one axis lie on the grid. Pixel begin + i lies between
/// the grid's cell centres cell[i] and cell[i] + 1, at `fraction[i]` of the way. Cells are counted
/// in a grid with a border of zeros: 0 to side + 1.
struct PixelAxis {
  std::int64_t begin = 0, end = 0;
  std::vector<std::int32_t> cell;
  std::vector<float> fraction;

  std::int64_t count() const { return end - begin; }
};

// In f32 and in the order of Detectron2 and of grid_sample (align_corners false).
PixelAxis make_axis(float low, float high, std::int64_t pixels, std::int64_t side) {
  PixelAxis axis;
  const auto limit = static_cast<float>(pixels);
  axis.begin = static_cast<std::int64_t>(std::clamp(std::floor(low) - 1.0F, 0.0F, limit));
  axis.end = static_cast<std::int64_t>(std::clamp(std::ceil(high) + 1.0F, 0.0F, limit));
  const float half = static_cast<float>(side) / 2.0F;
  const auto last = static_cast<float>(side);
  for (std::int64_t i = axis.begin; i < axis.end; ++i) {
    const float centre = static_cast<float>(i) + 0.5F;
    const float normalised = (centre - low) / (high - low) * 2.0F - 1.0F;
    const float position = (normalised + 1.0F) * half - 0.5F;
    const float below = std::floor(position);
    const bool inside = below >= -1.0F && below < last;
    // Outside the grid lies the border: a weight of 0 on its zeros.
    axis.cell.push_back(inside ? static_cast<std::int32_t>(below) + 1 : 0);
    axis.fraction.push_back(inside ? position - below : 0.0F);
  }
  return axis;
}

/// Rows [first, last) of the axis that lie between the same two cell centres.
struct Segment {
  std::int64_t first, last;
  std::size_t cell;
};

std::vector<Segment> make_segments(const PixelAxis& axis) {
  std::vector<Segment> segments;
  for (std::int64_t i = 0; i < axis.count(); ++i) {
    const auto cell = static_cast<std::size_t>(axis.cell[static_cast<std::size_t>(i)]);
    if (segments.empty() || segments.back().cell != cell) {
      segments.push_back({i, i, cell});
    }
    segments.back().last = i + 1;
  }
  return segments;
}

/// Walks down the columns of one mask. Between two cell centres the probability is linear along a
/// column: where that line is clear of the threshold by more than rounding, whole pieces are
/// decided at once; only the pixels around a crossing are interpolated one by one.
class MaskPaster {
 public:
  explicit MaskPaster(const PasteMask& paste)
      : size_(paste.size),
        threshold_(paste.threshold),
        stride_(static_cast<std::size_t>(paste.side) + 2),
        grid_(stride_ * stride_, 0.0F),
        line_(stride_),
        x_(make_axis(paste.box[0], paste.box[2], paste.size.width, paste.side)),
        y_(make_axis(paste.box[1], paste.box[3], paste.size.height, paste.side)),
        segments_(make_segments(y_)) {
    float largest = paste.threshold;
    for (std::int64_t row = 0; row < paste.side; ++row) {
      const float* from = paste.grid + row * paste.side;
      std::copy_n(from, paste.side,
                  grid_.begin() + static_cast<std::ptrdiff_t>(
                                      (static_cast<std::size_t>(row) + 1) * stride_ + 1));
      for (std::int64_t i = 0; i < paste.side; ++i) {
        largest = std::max(largest, std::abs(from[i]));
      }
    }
    margin_ = 1e-6F * largest;  // an interpolated value is off by fewer than 8 roundings of 6e-8
  }

  Rle run() {
    RleBuilder runs(size_);
    for (std::size_t column = 0; column < x_.cell.size(); ++column) {
      write_column(column, runs);
    }
    Rle rle = runs.take();
    rle.counts.shrink_to_fit();  // hundreds of masks are kept
    return rle;
  }

 private:
  void write_column(std::size_t column, RleBuilder& runs) {
    const float right = x_.fraction[column];
    const float* grid = grid_.data() + x_.cell[column];
    for (std::size_t row = 0; row < stride_; ++row) {
      const float* cell = grid + row * stride_;
      line_[row] = (1.0F - right) * cell[0] + right * cell[1];
    }
    for (const Segment& segment : segments_) {
      const float top = line_[segment.cell] - threshold_;
      const float bottom = line_[segment.cell + 1] - threshold_;
      if (std::min(top, bottom) > margin_) {
        set(column, segment.first, segment.last, runs);
      } else if (!(std::max(top, bottom) < -margin_)) {
        write_crossing(segment, column, runs);  // NaN as well
      }
    }
  }

  // Neither clearly inside nor clearly outside as a whole.
  void write_crossing(const Segment& segment, std::size_t column, RleBuilder& runs) const {
    const float top = line_[segment.cell] - threshold_;
    const float change = line_[segment.cell + 1] - line_[segment.cell];
    std::int64_t first = segment.first, last = segment.last;
    if (last - first > kWorthSearching && std::abs(change) > 4 * margin_) {
      const float sign = change > 0 ? 1.0F : -1.0F;
      const auto first_row_above = [&](float level) {
        const auto begin = y_.fraction.begin() + segment.first;
        const auto end = y_.fraction.begin() + segment.last;
        return std::partition_point(begin, end,
                                    [&](float f) { return sign * (top + f * change) < level; }) -
               y_.fraction.begin();
      };
      first = first_row_above(-margin_);
      last = first_row_above(margin_);
    }
    if (change < 0) {
      set(column, segment.first, first, runs);
    }
    for (std::int64_t row = first; row < last; ++row) {
      if (probability(static_cast<std::size_t>(row), column) >= threshold_) {
        set(column, row, row + 1, runs);
      }
    }
    if (change > 0) {
      set(column, last, segment.last, runs);
    }
  }

  /// Rows [first, last) of the region's column.
  void set(std::size_t column, std::int64_t first, std::int64_t last, RleBuilder& runs) const {
    const std::int64_t top =
        (x_.begin + static_cast<std::int64_t>(column)) * size_.height + y_.begin;
    runs.set(static_cast<std::uint64_t>(top + first), static_cast<std::uint64_t>(top + last));
  }

  // grid_sample's four products, in its order.
  float probability(std::size_t row, std::size_t column) const {
    const float bottom = y_.fraction[row], top = 1.0F - bottom;
    const float right = x_.fraction[column], left = 1.0F - right;
    const float* cell =
        grid_.data() + static_cast<std::size_t>(y_.cell[row]) * stride_ + x_.cell[column];
    return cell[0] * (top * left) + cell[1] * (top * right) + cell[stride_] * (bottom * left) +
           cell[stride_ + 1] * (bottom * right);
  }

  ImageSize size_;
  float threshold_, margin_ = 0;
  std::size_t stride_;       // of grid_
  std::vector<float> grid_;  // with a border of zeros
  std::vector<float> line_;  // probabilities of the current column at the rows of the grid
  PixelAxis x_, y_;
  std::vector<Segment> segments_;
};

}  // namespace

Rle paste_mask(const PasteMask& paste) {
  const float* box = paste.box;
  // Written so that NaN fails. Above 1e30 the difference of two coordinates could overflow.
  const bool finite = std::all_of(box, box + 4, [](float v) { return std::abs(v) < 1e30F; });
  if (!(finite && box[2] > box[0] && box[3] > box[1])) {
    return {paste.size, {static_cast<std::uint32_t>(paste.size.height * paste.size.width)}};
  }
  return MaskPaster(paste).run();
}

}  // namespace detforge::cpu
