#include "detforge/data/sample_geometry.h"

#include <algorithm>
#include <utility>

#include "detforge/data/flip.h"
#include "detforge/data/mask_transforms.h"
#include "detforge/data/polygon_clip.h"
#include "detforge/structures/rle_builder.h"

namespace detforge {
namespace {

/// Moves all geometry of the objects: points by two functions of one coordinate each, RLE masks by
/// the third.
template <typename MapX, typename MapY, typename MapMask>
void map_instances(std::vector<Instance>& instances,
                   const MapX& map_x,
                   const MapY& map_y,
                   const MapMask& map_mask) {
  for (Instance& instance : instances) {
    const auto [x1, x2] = std::minmax({map_x(instance.box.x1), map_x(instance.box.x2)});
    const auto [y1, y2] = std::minmax({map_y(instance.box.y1), map_y(instance.box.y2)});
    instance.box = {x1, y1, x2, y2};
    for (auto& polygon : instance.segmentation.polygons) {
      for (std::size_t i = 0; i + 1 < polygon.size(); i += 2) {
        polygon[i] = map_x(polygon[i]);
        polygon[i + 1] = map_y(polygon[i + 1]);
      }
    }
    if (!instance.segmentation.rle.counts.empty()) {
      instance.segmentation.rle = map_mask(instance.segmentation.rle);
    }
  }
}

double unchanged(double value) {
  return value;
}

void clip_polygons(Segmentation& segmentation, ImageSize size) {
  if (segmentation.polygons.empty()) {
    return;
  }
  const Box window{0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
  for (auto& polygon : segmentation.polygons) {
    polygon = clip_polygon(polygon, window);
  }
  std::erase_if(segmentation.polygons, [](const auto& polygon) { return polygon.empty(); });
  if (segmentation.empty()) {
    segmentation.rle = RleBuilder(size).take();
  }
}

}  // namespace

void resize_sample_(Sample& sample, ImageSize size, Interpolation interpolation) {
  const ImageSize from = sample.image.size();
  if (size == from) {
    return;
  }
  sample.image = resize_image(sample.image, size, interpolation);
  const double scale_x = static_cast<double>(size.width) / static_cast<double>(from.width);
  const double scale_y = static_cast<double>(size.height) / static_cast<double>(from.height);
  map_instances(
      sample.instances, [&](double x) { return x * scale_x; },
      [&](double y) { return y * scale_y; }, [&](RleView mask) { return resize_mask(mask, size); });
}

void flip_sample_horizontal_(Sample& sample) {
  flip_horizontal_(sample.image);
  const auto width = static_cast<double>(sample.image.width);
  map_instances(
      sample.instances, [&](double x) { return width - x; }, unchanged, flip_mask_horizontal);
}

void flip_sample_vertical_(Sample& sample) {
  flip_vertical_(sample.image);
  const auto height = static_cast<double>(sample.image.height);
  map_instances(
      sample.instances, unchanged, [&](double y) { return height - y; }, flip_mask_vertical);
}

void cut_sample_(Sample& sample, const Window& window, std::uint8_t padding) {
  if (window.left == 0 && window.top == 0 && window.size == sample.image.size()) {
    return;
  }
  Image image = plain_image(window.size, padding);
  place_picture_(image, sample.image, -window.left, -window.top);
  sample.image = std::move(image);
  cut_instances_(sample.instances, window);
}

void cut_instances_(std::vector<Instance>& instances, const Window& window) {
  const auto left = static_cast<double>(window.left), top = static_cast<double>(window.top);
  map_instances(
      instances, [&](double x) { return x - left; }, [&](double y) { return y - top; },
      [&](RleView mask) { return window_mask(mask, window.left, window.top, window.size); });
  for (Instance& instance : instances) {
    clip_polygons(instance.segmentation, window.size);
  }
}

void place_picture_(Image& image, const Image& picture, std::int64_t left, std::int64_t top) {
  const std::int64_t first = std::clamp<std::int64_t>(left, 0, image.width),
                     last = std::clamp(left + picture.width, first, image.width);
  const std::int64_t begin = std::clamp<std::int64_t>(top, 0, image.height),
                     end = std::clamp(top + picture.height, begin, image.height);
  if (first == last) {
    return;
  }
  for (std::int64_t y = begin; y < end; ++y) {
    std::copy_n(picture.row(y - top) + 3 * (first - left), 3 * (last - first),
                image.row(y) + 3 * first);
  }
}

Image plain_image(ImageSize size, std::uint8_t value) {
  return {size.height, size.width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3), value)};
}

}  // namespace detforge
