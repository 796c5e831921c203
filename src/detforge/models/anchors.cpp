#include "detforge/models/anchors.h"

#include <cmath>

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::size_t kCachedSizes = 8;  // per level; a grid of p2 takes 3 MB and is made in 1 ms

template <typename T>
const T& broadcast(const std::vector<T>& items, std::size_t level) {
  return items.size() == 1 ? items.front() : items[level];
}

// Shifts in double, rounded once, as torch.arange does.
Tensor shifts(std::int64_t count, std::int64_t stride, double offset) {
  Tensor out = torch::empty({count}, torch::kFloat);
  float* data = out.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] = static_cast<float>((offset + static_cast<double>(i)) * static_cast<double>(stride));
  }
  return out;
}

}  // namespace

Tensor cell_anchors(const std::vector<double>& sizes, const std::vector<double>& aspect_ratios) {
  const auto count = static_cast<std::int64_t>(sizes.size() * aspect_ratios.size());
  Tensor cells = torch::empty({count, 4}, torch::kFloat);
  float* out = cells.data_ptr<float>();
  for (const double size : sizes) {
    for (const double ratio : aspect_ratios) {
      const double width = std::sqrt(size * size / ratio);
      const double height = ratio * width;
      for (const double corner : {-width / 2.0, -height / 2.0, width / 2.0, height / 2.0}) {
        *out++ = static_cast<float>(corner);
      }
    }
  }
  return cells;
}

AnchorGenerator::AnchorGenerator(const AnchorOptions& options, std::vector<std::int64_t> strides)
    : strides_(std::move(strides)), offset_(options.offset), cache_(strides_.size()) {
  const auto fits = [&](std::size_t entries) { return entries == 1 || entries == strides_.size(); };
  DETFORGE_CHECK(
      !strides_.empty() && fits(options.sizes.size()) && fits(options.aspect_ratios.size()),
      "anchor sizes for " + std::to_string(options.sizes.size()) + " levels and ratios for " +
          std::to_string(options.aspect_ratios.size()) + ", but there are " +
          std::to_string(strides_.size()) + " feature maps",
      "give one list for all levels, or one per feature map");
  DETFORGE_CHECK(offset_ >= 0.0 && offset_ < 1.0,
                 "anchor offset " + std::to_string(offset_) + " is not in [0, 1)", "use 0 or 0.5");
  for (std::size_t level = 0; level < strides_.size(); ++level) {
    cells_.push_back(
        cell_anchors(broadcast(options.sizes, level), broadcast(options.aspect_ratios, level)));
    DETFORGE_CHECK(cells_.back().size(0) > 0 && cells_.back().size(0) == cells_.front().size(0),
                   "levels have different numbers of anchors per cell, or none",
                   "give every level as many sizes times ratios as the first");
  }
}

std::vector<Tensor> AnchorGenerator::grid(const std::vector<ImageSize>& sizes) {
  DETFORGE_CHECK(sizes.size() == strides_.size(),
                 std::to_string(sizes.size()) + " feature maps, but anchors for " +
                     std::to_string(strides_.size()),
                 "pass one size per level");
  std::vector<Tensor> anchors;
  for (std::size_t level = 0; level < sizes.size(); ++level) {
    auto& known = cache_[level];
    const auto key = std::pair(sizes[level].height, sizes[level].width);
    auto found = known.find(key);
    if (found == known.end()) {
      if (known.size() >= kCachedSizes) {
        known.clear();
      }
      found = known.emplace(key, level_grid(level, sizes[level])).first;
    }
    anchors.push_back(found->second);
  }
  return anchors;
}

Tensor AnchorGenerator::level_grid(std::size_t level, ImageSize size) const {
  const torch::NoGradGuard no_grad;
  const Tensor x = shifts(size.width, strides_[level], offset_).view({1, size.width});
  const Tensor y = shifts(size.height, strides_[level], offset_).view({size.height, 1});
  const Tensor shift_x = x.expand({size.height, size.width});
  const Tensor shift_y = y.expand({size.height, size.width});
  const Tensor shift =
      torch::stack({shift_x, shift_y, shift_x, shift_y}, -1).view({size.height * size.width, 1, 4});
  return (shift + cells_[level]).view({-1, 4});
}

}  // namespace detforge
