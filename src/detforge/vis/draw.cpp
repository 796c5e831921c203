#include "detforge/vis/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <opencv2/imgproc.hpp>

#include "detforge/core/error.h"
#include "detforge/data/mask_transforms.h"
#include "detforge/data/resize.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/vis/canvas.h"
#include "detforge/vis/grid.h"
#include "detforge/vis/labels.h"
#include "detforge/vis/mask_layer.h"

namespace detforge {
namespace {

constexpr int kFractionBits = 4;  // OpenCV draws at sixteenths of a pixel
constexpr std::int64_t kComparisonSide = 2000;

/// A coordinate for cv:: drawing functions: OpenCV's pixel centres lie at whole numbers, ours at
/// .5. Bounded, because OpenCV's own arithmetic is 32 bits wide.
int fixed(double value) {
  constexpr double kFar = 1e6;
  return static_cast<int>(
      std::lround((std::clamp(value, -kFar, kFar) - 0.5) * (1 << kFractionBits)));
}

/// The copy that is drawn on, and the factor from pixels of the original to its own.
struct Sheet {
  Image image;
  ImageSize original;
  double scale_x = 1, scale_y = 1;

  bool is_shrunk() const { return scale_x < 1 || scale_y < 1; }
  Box scaled(const Box& box) const {
    return {box.x1 * scale_x, box.y1 * scale_y, box.x2 * scale_x, box.y2 * scale_y};
  }
};

/// Shrunk to `longest_side`, or enlarged towards `least_short_edge`, or the same.
ImageSize sheet_size(ImageSize image, const DrawOptions& options) {
  const std::int64_t shorter = std::min(image.height, image.width);
  const std::int64_t longer = std::max(image.height, image.width);
  const std::int64_t enlarged = 4 * options.least_short_edge;
  const std::int64_t bound = options.longest_side.value_or(std::max(longer, enlarged));
  if (longer > bound) {
    return shortest_edge_size(image, shorter, bound);
  }
  const std::int64_t most = std::min(bound, enlarged);
  if (shorter < options.least_short_edge && longer < most) {
    return shortest_edge_size(image, options.least_short_edge, most);
  }
  return image;
}

Sheet make_sheet(const Image& image, const DrawOptions& options) {
  const ImageSize size = sheet_size(image.size(), options);
  return {.image = size == image.size() ? image : resize_bilinear(image, size),
          .original = image.size(),
          .scale_x = static_cast<double>(size.width) / static_cast<double>(image.width),
          .scale_y = static_cast<double>(size.height) / static_cast<double>(image.height)};
}

/// Objects to draw in the order of drawing: crowds, then by rising score.
std::vector<DrawnObject> in_drawing_order(std::span<const DrawnObject> objects, double threshold) {
  std::vector<DrawnObject> chosen;
  std::copy_if(objects.begin(), objects.end(), std::back_inserter(chosen),
               [&](const DrawnObject& object) { return object.score.value_or(1) >= threshold; });
  std::stable_sort(chosen.begin(), chosen.end(), [](const DrawnObject& a, const DrawnObject& b) {
    return std::pair(!a.is_crowd, a.score.value_or(1)) <
           std::pair(!b.is_crowd, b.score.value_or(1));
  });
  return chosen;
}

std::vector<Colour> colours_of(const std::vector<DrawnObject>& objects, std::size_t class_count) {
  std::vector<Box> boxes;
  std::vector<std::int64_t> labels;
  for (const DrawnObject& object : objects) {
    boxes.push_back(object.box);
    labels.push_back(object.label);
  }
  return object_colours(boxes, labels, static_cast<std::int64_t>(class_count));
}

/// Draws on one sheet, layer by layer, so that no fill dims another object's outline or label.
class Painter {
 public:
  Painter(Sheet& sheet, const DrawOptions& options)
      : sheet_(sheet),
        canvas_(vis::view(sheet.image)),
        options_(options),
        style_(vis::style_for(sheet.image.size())) {}

  /// One piece of a mask at a time is in memory: a picture may have hundreds of large ones.
  void draw_masks(const std::vector<DrawnObject>& objects, const std::vector<Colour>& colours) {
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const double fill = objects[i].is_crowd ? options_.fill / 2 : options_.fill;
      vis::tint(canvas_, piece_of(objects[i]), colours[i], fill);
    }
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const vis::MaskPiece piece = piece_of(objects[i]);
      vis::outline(canvas_, piece, colours[i], line_width_for(piece.bits.size()));
    }
  }

  void draw_box(const DrawnObject& object, const Colour& colour) {
    constexpr double kBesideMask = 0.6;
    const Box box = sheet_.scaled(object.box);
    if (options_.masks && !object.mask.counts.empty()) {
      vis::tint_frame(canvas_, box, colour, std::max(1, style_.line_width / 2), kBesideMask);
    } else {
      cv::rectangle(canvas_, cv::Point(fixed(box.x1), fixed(box.y1)),
                    cv::Point(fixed(box.x2), fixed(box.y2)), vis::scalar(colour), style_.line_width,
                    cv::LINE_AA, kFractionBits);
    }
  }

  /// The best objects' labels first, so that they get the best places.
  void draw_labels(const std::vector<DrawnObject>& objects,
                   const std::vector<Colour>& colours,
                   const std::vector<std::string>& class_names) {
    std::vector<vis::Label> labels;
    for (std::size_t i = objects.size(); i-- > 0;) {
      labels.push_back(label_of(objects[i], colours[i], class_names));
    }
    vis::draw_labels(canvas_, labels, style_);
  }

 private:
  vis::MaskPiece piece_of(const DrawnObject& object) const {
    if (object.mask.counts.empty()) {
      return {};
    }
    if (sheet_.is_shrunk()) {  // on the runs: a piece of the original's size may be large
      return vis::cut_mask(resize_mask(object.mask, sheet_.image.size()));
    }
    return vis::enlarged(vis::cut_mask(object.mask), sheet_.scale_x, sheet_.scale_y);
  }

  vis::Label label_of(const DrawnObject& object,
                      const Colour& colour,
                      const std::vector<std::string>& class_names) const {
    const bool known =
        object.label >= 0 && object.label < static_cast<std::int64_t>(class_names.size());
    std::string name =
        known ? class_names[static_cast<std::size_t>(object.label)] : std::to_string(object.label);
    name += object.is_crowd ? " crowd" : "";
    const std::string score = object.score ? fmt::format("{:.2f}", *object.score) : "";
    const std::string text = score.empty() ? name : name + " " + score;
    const bool is_only_class = class_names.size() == 1 && known && !object.is_crowd;
    return {.box = sheet_.scaled(object.box),
            .text = is_only_class && score.empty() ? "" : text,
            .short_text = is_only_class ? score : text,
            .colour = colour};
  }

  /// Thin lines around small objects, of which thick ones would leave nothing to see.
  int line_width_for(cv::Size object) const {
    const double edge = std::sqrt(static_cast<double>(object.area()));
    return std::clamp(static_cast<int>(std::lround(edge / 18)), 1, style_.line_width);
  }

  Sheet& sheet_;
  cv::Mat canvas_;
  const DrawOptions& options_;
  vis::Style style_;
};

void check_masks(std::span<const DrawnObject> objects, ImageSize size) {
  for (const DrawnObject& object : objects) {
    DETFORGE_CHECK(
        object.mask.counts.empty() || object.mask.size == size,
        fmt::format("a mask of {} x {} for a picture of {} x {} (height x width)",
                    object.mask.size.height, object.mask.size.width, size.height, size.width),
        "masks are drawn in pixels of the picture");
  }
}

/// The objects are in pixels of the original.
Image draw_on(Sheet sheet,
              std::span<const DrawnObject> objects,
              const std::vector<std::string>& class_names,
              const DrawOptions& options) {
  check_masks(objects, sheet.original);
  const std::vector<DrawnObject> ordered = in_drawing_order(objects, options.score_threshold);
  const std::vector<Colour> colours = colours_of(ordered, class_names.size());
  Painter painter(sheet, options);
  if (options.masks) {
    painter.draw_masks(ordered, colours);
  }
  for (std::size_t i = 0; options.boxes && i < ordered.size(); ++i) {
    painter.draw_box(ordered[i], colours[i]);
  }
  if (options.labels) {
    painter.draw_labels(ordered, colours, class_names);
  }
  return std::move(sheet.image);
}

Image draw_on(Sheet sheet,
              const std::vector<Instance>& instances,
              const std::vector<std::string>& class_names,
              const DrawOptions& options) {
  std::vector<Rle> masks;
  masks.reserve(instances.size());  // the objects borrow them
  std::vector<DrawnObject> objects;
  for (const Instance& instance : instances) {
    masks.push_back(options.masks && !instance.segmentation.empty()
                        ? segmentation_mask(instance.segmentation, sheet.original)
                        : Rle{});
    objects.push_back({.box = instance.box,
                       .label = instance.label,
                       .mask = masks.back(),
                       .is_crowd = instance.is_crowd});
  }
  return draw_on(std::move(sheet), objects, class_names, options);
}

}  // namespace

Image draw_objects(const Image& image,
                   std::span<const DrawnObject> objects,
                   const std::vector<std::string>& class_names,
                   const DrawOptions& options) {
  return draw_on(make_sheet(image, options), objects, class_names, options);
}

Image draw_ground_truth(const Image& image,
                        const std::vector<Instance>& instances,
                        const std::vector<std::string>& class_names,
                        const DrawOptions& options) {
  return draw_on(make_sheet(image, options), instances, class_names, options);
}

Image draw_comparison(const Image& image,
                      std::span<const DrawnObject> detections,
                      const std::vector<Instance>& ground_truth,
                      const std::vector<std::string>& class_names,
                      const DrawOptions& options) {
  const auto shown =
      std::count_if(detections.begin(), detections.end(), [&](const DrawnObject& object) {
        return object.score.value_or(1) >= options.score_threshold;
      });
  DrawOptions bounded = options;
  bounded.longest_side = options.longest_side.value_or(kComparisonSide);
  Sheet sheet = make_sheet(image, bounded);
  std::vector<Image> panels;  // not an initializer list, whose pictures would be copied
  panels.push_back(captioned(draw_on(sheet, detections, class_names, bounded),
                             fmt::format("{} detections", shown)));
  panels.push_back(captioned(draw_on(std::move(sheet), ground_truth, class_names, bounded),
                             fmt::format("ground truth: {} objects", ground_truth.size())));
  return grid(panels, {.columns = 2});
}

}  // namespace detforge
