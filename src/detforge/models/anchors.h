#pragma once

#include <map>
#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/image.h"

namespace detforge {

struct AnchorOptions {
  /// Sides of the square anchors, in pixels, per level; one entry stands for all levels.
  std::vector<std::vector<double>> sizes{{32}, {64}, {128}, {256}, {512}};
  /// Height / width, per level; one entry stands for all levels.
  std::vector<std::vector<double>> aspect_ratios{{0.5, 1.0, 2.0}};
  double offset = 0.0;  ///< of the first anchor's centre, in strides; [0, 1)
};

/// The anchors around (0, 0) of every size and ratio: [sizes * ratios,4] f32 xyxy, ratios fastest.
/// An anchor of size s and ratio r has area s * s and height = r * width. Ref: Detectron2's
/// DefaultAnchorGenerator.
Tensor cell_anchors(const std::vector<double>& sizes, const std::vector<double>& aspect_ratios);

/// Lays anchors over the cells of each feature map. Keeps the anchors of the sizes seen last, so
/// that a grid is computed once; not thread-safe for that reason.
///   AnchorGenerator anchors(options, {4, 8, 16, 32, 64});
///   std::vector<Tensor> per_level = anchors.grid({{200, 304}, {100, 152}, {50, 76}, {25, 38}, {13,
///   19}});
class AnchorGenerator {
 public:
  /// `strides`: image pixels per cell of each level. Throws Error if the numbers of levels do not
  /// fit.
  AnchorGenerator(const AnchorOptions& options, std::vector<std::int64_t> strides);

  /// Anchors of each level, [height * width * A,4] f32 xyxy in (y, x, anchor) order, not clipped to
  /// the image. The tensors are shared with the cache: do not write to them.
  std::vector<Tensor> grid(const std::vector<ImageSize>& sizes);

  /// A: anchors per cell, the same on every level.
  std::int64_t anchors_per_cell() const { return cells_.front().size(0); }

 private:
  Tensor level_grid(std::size_t level, ImageSize size) const;

  std::vector<std::int64_t> strides_;
  std::vector<Tensor> cells_;
  double offset_;
  std::vector<std::map<std::pair<std::int64_t, std::int64_t>, Tensor>> cache_;  // per level
};

}  // namespace detforge
