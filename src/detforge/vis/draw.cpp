#include "detforge/vis/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <opencv2/imgproc.hpp>

#include "detforge/core/error.h"
#include "detforge/data/resize.h"
#include "detforge/vis/canvas.h"

namespace detforge {
namespace {

constexpr int kFractionBits = 4;  // OpenCV draws at sixteenths of a pixel

/// A coordinate for cv:: drawing functions: OpenCV's pixel centres lie at whole numbers, ours at
/// .5.
int fixed(double value) {
  return static_cast<int>(std::lround((value - 0.5) * (1 << kFractionBits)));
}

/// The copy that is drawn on, and the factor from pixels of the original to its own.
struct Sheet {
  Image image;
  double scale_x = 1, scale_y = 1;

  Box scaled(const Box& box) const {
    return {box.x1 * scale_x, box.y1 * scale_y, box.x2 * scale_x, box.y2 * scale_y};
  }
};

Sheet make_sheet(const Image& image, const DrawOptions& options) {
  Sheet sheet{.image = image};
  if (std::min(image.height, image.width) < options.least_short_edge) {
    const std::int64_t longest = 4 * options.least_short_edge;
    sheet.image =
        resize_bilinear(image, shortest_edge_size(image.size(), options.least_short_edge, longest));
    sheet.scale_x = static_cast<double>(sheet.image.width) / static_cast<double>(image.width);
    sheet.scale_y = static_cast<double>(sheet.image.height) / static_cast<double>(image.height);
  }
  return sheet;
}

cv::Scalar to_scalar(std::int64_t label) {
  const auto colour = class_colour(label);
  return {static_cast<double>(colour[0]), static_cast<double>(colour[1]),
          static_cast<double>(colour[2])};
}

void draw_box(cv::Mat& canvas, const Box& box, std::int64_t label, const vis::Style& style) {
  cv::rectangle(canvas, cv::Point(fixed(box.x1), fixed(box.y1)),
                cv::Point(fixed(box.x2), fixed(box.y2)), to_scalar(label), style.line_width,
                cv::LINE_AA, kFractionBits);
}

/// Above the box where there is room, else inside it.
void draw_name(cv::Mat& canvas,
               const Box& box,
               const std::string& text,
               std::int64_t label,
               const vis::Style& style) {
  const cv::Point corner(static_cast<int>(box.x1) - style.line_width / 2, static_cast<int>(box.y1));
  vis::draw_label(canvas, text, corner, to_scalar(label), style);
}

std::string name_of(std::int64_t label, const std::vector<std::string>& class_names) {
  const bool known = label >= 0 && label < static_cast<std::int64_t>(class_names.size());
  return known ? class_names[static_cast<std::size_t>(label)] : std::to_string(label);
}

void draw_polygons(cv::Mat& canvas, const Sheet& sheet, const Instance& instance) {
  for (const auto& polygon : instance.segmentation.polygons) {
    std::vector<cv::Point> points;
    for (std::size_t i = 0; i + 1 < polygon.size(); i += 2) {
      points.emplace_back(fixed(polygon[i] * sheet.scale_x), fixed(polygon[i + 1] * sheet.scale_y));
    }
    if (points.size() > 2) {
      cv::polylines(canvas, points, true, to_scalar(instance.label), 1, cv::LINE_AA, kFractionBits);
    }
  }
}

/// Indices of the objects to draw, the best last.
std::vector<std::size_t> drawing_order(std::size_t count,
                                       const std::vector<double>& scores,
                                       double threshold) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!scores.empty()) {
    std::erase_if(order, [&](std::size_t i) { return scores[i] < threshold; });
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  }
  return order;
}

}  // namespace

std::array<std::uint8_t, 3> class_colour(std::int64_t label) {
  // Steps of the golden ratio around the colour circle never come close to one another for long.
  const double turn = static_cast<double>(label) * 0.618033988749895 + 0.09;
  const double hue = 6 * (turn - std::floor(turn));
  const double value = label % 2 == 0 ? 255 : 215;
  const double saturation = label % 3 == 2 ? 0.62 : 0.88;
  std::array<std::uint8_t, 3> bgr{};
  constexpr std::array<double, 3> kOffsets = {1, 3, 5};  // of blue, green and red
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double at = std::fmod(hue + kOffsets[channel], 6.0);
    const double share = std::clamp(std::min(at, 4 - at), 0.0, 1.0);
    bgr[channel] = static_cast<std::uint8_t>(std::lround(value * (1 - saturation * share)));
  }
  return bgr;
}

Image draw_detections(const Image& image,
                      const std::vector<Box>& boxes,
                      const std::vector<std::int64_t>& labels,
                      const std::vector<double>& scores,
                      const std::vector<std::string>& class_names,
                      const DrawOptions& options) {
  DETFORGE_CHECK(
      labels.size() == boxes.size() && (scores.empty() || scores.size() == boxes.size()),
      fmt::format("{} boxes, {} labels, {} scores", boxes.size(), labels.size(), scores.size()),
      "this is a bug: give one of each per object");
  Sheet sheet = make_sheet(image, options);
  cv::Mat canvas = vis::view(sheet.image);
  const vis::Style style = vis::style_for(sheet.image.size());
  const auto order = drawing_order(boxes.size(), scores, options.score_threshold);
  for (const std::size_t i : order) {
    draw_box(canvas, sheet.scaled(boxes[i]), labels[i], style);
  }
  for (const std::size_t i : order) {
    if (options.labels) {
      const std::string name = name_of(labels[i], class_names);
      draw_name(canvas, sheet.scaled(boxes[i]),
                scores.empty() ? name : fmt::format("{} {:.2f}", name, scores[i]), labels[i],
                style);
    }
  }
  return std::move(sheet.image);
}

Image draw_ground_truth(const Image& image,
                        const std::vector<Instance>& instances,
                        const std::vector<std::string>& class_names,
                        const DrawOptions& options) {
  Sheet sheet = make_sheet(image, options);
  cv::Mat canvas = vis::view(sheet.image);
  const vis::Style style = vis::style_for(sheet.image.size());
  for (const Instance& instance : instances) {
    draw_polygons(canvas, sheet, instance);
    draw_box(canvas, sheet.scaled(instance.box), instance.label, style);
  }
  for (const Instance& instance : instances) {
    if (options.labels) {
      const std::string name =
          name_of(instance.label, class_names) + (instance.is_crowd ? " crowd" : "");
      draw_name(canvas, sheet.scaled(instance.box), name, instance.label, style);
    }
  }
  return std::move(sheet.image);
}

}  // namespace detforge
