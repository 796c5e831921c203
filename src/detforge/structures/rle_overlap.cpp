#include "detforge/structures/rle_overlap.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

/// Walks over the runs of set pixels as intervals [begin, end) of the flattened mask.
class SetRuns {
 public:
  explicit SetRuns(std::span<const std::uint32_t> counts) : counts_(counts) { next(); }

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }

  /// To the next run; behind the last one `end` is as far away as can be.
  void next() {
    if (at_ + 1 >= counts_.size()) {
      begin_ = end_ = std::numeric_limits<std::int64_t>::max();
      return;
    }
    begin_ = end_ + counts_[at_];
    end_ = begin_ + counts_[at_ + 1];
    at_ += 2;
  }

 private:
  std::span<const std::uint32_t> counts_;
  std::size_t at_ = 0;
  std::int64_t begin_ = 0, end_ = 0;
};

bool boxes_meet(const Box& a, const Box& b) {
  return std::min(a.x2, b.x2) > std::max(a.x1, b.x1) && std::min(a.y2, b.y2) > std::max(a.y1, b.y1);
}

}  // namespace

std::int64_t rle_intersection(RleView a, RleView b) {
  constexpr std::int64_t kBehindTheLast = std::numeric_limits<std::int64_t>::max();
  SetRuns x(a.counts), y(b.counts);
  std::int64_t pixels = 0;
  while (x.begin() != kBehindTheLast && y.begin() != kBehindTheLast) {
    pixels +=
        std::max<std::int64_t>(std::min(x.end(), y.end()) - std::max(x.begin(), y.begin()), 0);
    (x.end() < y.end() ? x : y).next();
  }
  return pixels;
}

MaskExtent mask_extent(RleView mask) {
  return {.area = rle_area(mask.counts), .box = rle_box(mask.counts, mask.size.height)};
}

double rle_iou(RleView detection, RleView object, bool object_is_crowd) {
  return rle_iou(detection, mask_extent(detection), object, mask_extent(object), object_is_crowd);
}

double rle_iou(RleView detection,
               const MaskExtent& detection_extent,
               RleView object,
               const MaskExtent& object_extent,
               bool object_is_crowd) {
  DETFORGE_CHECK(detection.size == object.size,
                 fmt::format("a mask of {} x {} is compared with one of {} x {} (height x width)",
                             detection.size.height, detection.size.width, object.size.height,
                             object.size.width),
                 "both masks must have the size of the image");
  if (!boxes_meet(detection_extent.box, object_extent.box)) {
    return 0;
  }
  const std::int64_t shared = rle_intersection(detection, object);
  if (shared == 0) {
    return 0;
  }
  const std::int64_t whole =
      object_is_crowd ? detection_extent.area : detection_extent.area + object_extent.area - shared;
  return static_cast<double>(shared) / static_cast<double>(whole);
}

}  // namespace detforge
