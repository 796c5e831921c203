#include "detforge/vis/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "detforge/vis/text.h"

namespace detforge::vis {
namespace {

constexpr double kSmallestText = 7;   // pixels of capital letters that can still be read
constexpr double kMostHidden = 0.15;  // share of a plate that may lie on others
constexpr double kSmallObject = 3;    // times a plate's area: such objects should not be covered

/// Letters in proportion to the object, within reason.
double text_height(const Box& box, const Style& style) {
  const double edge = std::sqrt(std::max(0.0, box.area()));
  return std::clamp(edge / 6, std::min(kSmallestText, style.text_height), style.text_height);
}

/// Corners where a plate may go, the preferred ones first.
std::array<cv::Point, 6> places(const Box& box, cv::Size plate, int gap) {
  const auto whole = [](double value) { return static_cast<int>(std::lround(value)); };
  const int left = whole(box.x1) - gap, right = whole(box.x2) + gap;
  const int above = whole(box.y1) - gap - plate.height, below = whole(box.y2) + gap;
  const int middle = whole((box.x1 + box.x2) / 2) - plate.width / 2;
  return {{{left, above},
           {right - plate.width, above},
           {middle, below},
           {right, whole(box.y1)},
           {left - plate.width, whole(box.y1)},
           {middle, whole((box.y1 + box.y2) / 2) - plate.height / 2}}};
}

/// Moved into the picture where it would leave it.
cv::Rect inside(cv::Point corner, cv::Size plate, const cv::Mat& canvas) {
  return {std::clamp(corner.x, 0, std::max(0, canvas.cols - plate.width)),
          std::clamp(corner.y, 0, std::max(0, canvas.rows - plate.height)), plate.width,
          plate.height};
}

cv::Rect pixels_of(const Box& box, const cv::Mat& canvas) {
  const auto bounded = [](double value, int most) {
    return static_cast<int>(std::lround(std::clamp(value, 0.0, static_cast<double>(most))));
  };
  const cv::Point corner(bounded(box.x1, canvas.cols), bounded(box.y1, canvas.rows));
  return {corner, cv::Point(bounded(box.x2, canvas.cols), bounded(box.y2, canvas.rows))};
}

/// Finds places for plates, one after the other.
class Layout {
 public:
  Layout(const std::vector<Label>& labels, const cv::Mat& canvas, int gap)
      : canvas_(canvas), gap_(gap) {
    for (const Label& label : labels) {
      objects_.push_back(pixels_of(label.box, canvas));
    }
  }

  /// Nothing if every place would hide too much of other plates.
  std::optional<cv::Rect> place(const Box& box, cv::Size plate) {
    std::optional<cv::Rect> best;
    double least = 0;
    for (const cv::Point corner : places(box, plate, gap_)) {
      const cv::Rect candidate = inside(corner, plate, canvas_);
      const double cost = hidden(candidate, plates_);
      const double all = cost + 0.5 * hidden(candidate, small_objects(plate));
      if (cost <= kMostHidden * plate.area() && (!best || all < least)) {
        best = candidate;
        least = all;
      }
    }
    if (best) {
      plates_.push_back(*best);
    }
    return best;
  }

 private:
  static int hidden(const cv::Rect& plate, const std::vector<cv::Rect>& others) {
    int area = 0;
    for (const cv::Rect& other : others) {
      area += (plate & other).area();
    }
    return area;
  }
  std::vector<cv::Rect> small_objects(cv::Size plate) const {
    std::vector<cv::Rect> small;
    std::copy_if(
        objects_.begin(), objects_.end(), std::back_inserter(small),
        [&](const cv::Rect& object) { return object.area() < kSmallObject * plate.area(); });
    return small;
  }

  const cv::Mat& canvas_;
  int gap_;
  std::vector<cv::Rect> objects_, plates_;
};

}  // namespace

void draw_labels(cv::Mat& canvas, const std::vector<Label>& labels, const Style& style) {
  Layout layout(labels, canvas, style.line_width / 2);
  for (const Label& label : labels) {
    const double height = text_height(label.box, style);
    const bool is_wide = plate_size(label.text, height).width > label.box.width();
    const std::string& text = is_wide ? label.short_text : label.text;
    if (text.empty()) {
      continue;
    }
    if (const auto plate = layout.place(label.box, plate_size(text, height))) {
      draw_plate(canvas, text, plate->tl(), label.colour, height);
    }
  }
}

}  // namespace detforge::vis
