#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "detforge/structures/box.h"
#include "detforge/structures/image.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// How objects are drawn.
struct DrawOptions {
  double score_threshold = 0;  ///< objects below are left out
  bool labels = true;          ///< name and score at each box
  std::int64_t least_short_edge =
      480;  ///< smaller pictures are enlarged first, so that labels can be read
};

/// A colour for each class, b g r: neighbouring labels differ clearly, and the same label always
/// looks the same.
std::array<std::uint8_t, 3> class_colour(std::int64_t label);

/// A copy of the picture with boxes, and labels like "disc 0.97" on a filled ground; the best on
/// top.
///   boxes [N] in pixels of `image`; labels [N], 0..K-1; scores [N] 0..1, or empty for objects
///   without score class_names [K] (a label outside is drawn as its number; letters outside ASCII
///   become '?')
/// Line width and letters grow with the picture. N = 0 gives the picture alone. Throws Error for
/// unequal lengths.
Image draw_detections(const Image& image,
                      const std::vector<Box>& boxes,
                      const std::vector<std::int64_t>& labels,
                      const std::vector<double>& scores,
                      const std::vector<std::string>& class_names,
                      const DrawOptions& options = {});

/// The same for ground truth: no scores; crowds are marked "crowd"; polygons are drawn as thin
/// outlines.
Image draw_ground_truth(const Image& image,
                        const std::vector<Instance>& instances,
                        const std::vector<std::string>& class_names,
                        const DrawOptions& options = {});

}  // namespace detforge
