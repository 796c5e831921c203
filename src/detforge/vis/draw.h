#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detforge/structures/sample.h"
#include "detforge/vis/colours.h"

namespace detforge {

/// How objects are drawn.
struct DrawOptions {
  double score_threshold = 0;  ///< objects below are left out
  bool boxes = true;           ///< outlines of boxes; thin where there is a mask
  bool masks = true;           ///< those that objects have
  bool labels = true;          ///< name and score at each object
  double fill = 0.4;           ///< of masks: 0 is none, 1 hides what is below
  /// Smaller pictures are enlarged first, so that labels can be read: to at most four times this
  /// length, long thin ones less or not at all.
  std::int64_t least_short_edge = 480;
  /// Larger pictures are shrunk first, with boxes and masks. Default: 2000 for each side of a
  /// comparison, else no bound.
  std::optional<std::int64_t> longest_side = {};
};

/// One object of a picture: what was found, or what should be.
///   std::vector<DrawnObject> objects = {{.box = box, .label = 3, .mask = masks[0]}};
///   draw_objects(image, objects, class_names);
struct DrawnObject {
  Box box;                           ///< in pixels of the image
  std::int64_t label = 0;            ///< 0..K-1
  std::optional<double> score = {};  ///< 0..1; none for ground truth
  RleView mask = {};                 ///< of the image's size, borrowed; none if it has no runs
  bool is_crowd = false;             ///< marked "crowd", drawn below the others with half the fill
};

/// A copy of the picture with each object's box, its mask as a translucent fill with an outline,
/// and a label like "disc 0.97"; the best on top. Every object has a shade of its class's colour
/// that differs from those of its neighbours (object_colours()).
///   class_names [K]: a label outside is drawn as its number; letters outside ASCII become '?'. The
///   name of an only class is left out of small objects' labels, and of all without a score.
/// Lines and letters grow with the picture; labels evade one another, and one that would hide
/// others is left out. No objects give the picture alone. Memory beyond the picture that is drawn
/// on is that of the largest mask's part of it. Throws Error for a mask that is malformed or not of
/// the image's size.
Image draw_objects(const Image& image,
                   std::span<const DrawnObject> objects,
                   const std::vector<std::string>& class_names,
                   const DrawOptions& options = {});

/// The same for ground truth: masks are the polygons or RLEs of the instances.
Image draw_ground_truth(const Image& image,
                        const std::vector<Instance>& instances,
                        const std::vector<std::string>& class_names,
                        const DrawOptions& options = {});

/// Detections left, ground truth right, with captions that say how many of each: what eval shows of
/// an image. Its memory follows `longest_side`, not the image, but for the runs of the ground
/// truth's masks.
Image draw_comparison(const Image& image,
                      std::span<const DrawnObject> detections,
                      const std::vector<Instance>& ground_truth,
                      const std::vector<std::string>& class_names,
                      const DrawOptions& options = {});

}  // namespace detforge
