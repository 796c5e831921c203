#include "detforge/data/min_iou_crop.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {
namespace {

Box to_box(const Window& window) {
  const auto left = static_cast<double>(window.left), top = static_cast<double>(window.top);
  return {left, top, left + static_cast<double>(window.size.width),
          top + static_cast<double>(window.size.height)};
}

double iou(const Box& a, const Box& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double shared = std::max(0.0, width) * std::max(0.0, height);
  return shared / (a.area() + b.area() - shared);
}

bool holds_centre(const Box& window, const Box& box) {
  const double x = (box.x1 + box.x2) / 2, y = (box.y1 + box.y2) / 2;
  return x > window.x1 && x < window.x2 && y > window.y1 && y < window.y2;
}

}  // namespace

MinIouRandomCrop::MinIouRandomCrop(Options options) : options_(std::move(options)) {
  DETFORGE_CHECK(std::all_of(options_.min_ious.begin(), options_.min_ious.end(),
                             [](double iou) { return iou >= 0 && iou < 1; }),
                 fmt::format("min-IoU crop with IoUs of {}", fmt::join(options_.min_ious, ", ")),
                 "give numbers from 0 to below 1");
  DETFORGE_CHECK(options_.min_crop_size > 0 && options_.min_crop_size <= 1,
                 fmt::format("min-IoU crop of {} of the image", options_.min_crop_size),
                 "give a number above 0 and up to 1");
}

std::optional<Window> MinIouRandomCrop::draw_window(const Sample& sample,
                                                    double min_iou,
                                                    Rng& rng) const {
  const auto height = static_cast<double>(sample.image.height),
             width = static_cast<double>(sample.image.width);
  const double wide = rng.uniform(options_.min_crop_size * width, width);
  const double high = rng.uniform(options_.min_crop_size * height, height);
  if (high / wide < 0.5 || high / wide > 2) {
    return std::nullopt;
  }
  const double x = rng.uniform(0, width - wide), y = rng.uniform(0, height - high);
  const auto left = static_cast<std::int64_t>(x), top = static_cast<std::int64_t>(y);
  const Window window{.left = left,
                      .top = top,
                      .size = {static_cast<std::int64_t>(y + high) - top,
                               static_cast<std::int64_t>(x + wide) - left}};
  if (window.size.width == 0 || window.size.height == 0) {
    return std::nullopt;
  }
  const Box box = to_box(window);
  const std::vector<Instance>& objects = sample.instances;
  const bool fits = std::all_of(objects.begin(), objects.end(), [&](const Instance& object) {
    return iou(box, object.box) >= min_iou;
  });
  const bool shows_one = std::any_of(objects.begin(), objects.end(), [&](const Instance& object) {
    return holds_centre(box, object.box);
  });
  return fits && (shows_one || objects.empty()) ? std::optional(window) : std::nullopt;
}

void MinIouRandomCrop::apply(Sample& sample, Rng& rng) const {
  constexpr int kTries = 50;
  const std::size_t ious = options_.min_ious.size();
  while (true) {
    // The first choice is no crop, the last any window; "no crop" ends this loop sooner or later.
    const std::uint64_t choice = rng.below(ious + 2);
    if (choice == 0) {
      return;
    }
    const double min_iou = choice <= ious ? options_.min_ious[choice - 1] : 0.0;
    for (int i = 0; i < kTries; ++i) {
      if (const std::optional<Window> window = draw_window(sample, min_iou, rng)) {
        crop_to_centres_(sample, *window);
        return;
      }
    }
  }
}

void crop_to_centres_(Sample& sample, const Window& window) {
  const Box box = to_box(window);
  std::erase_if(sample.instances,
                [&](const Instance& object) { return !holds_centre(box, object.box); });
  cut_sample_(sample, window);
}

}  // namespace detforge
