#include "detforge/vis/grid.h"

#include <algorithm>
#include <cmath>

#include "detforge/core/error.h"
#include "detforge/vis/canvas.h"
#include "detforge/vis/text.h"

namespace detforge {
namespace {

constexpr std::uint8_t kGround = 40;  // dark grey

Image blank(ImageSize size) {
  return {
      size.height, size.width,
      std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3), kGround)};
}

void paste(const Image& image, Image& into, std::int64_t top, std::int64_t left) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::copy_n(image.row(y), image.width * 3, into.row(top + y) + 3 * left);
  }
}

}  // namespace

Image grid(const std::vector<Image>& images, const GridOptions& options) {
  DETFORGE_CHECK(!images.empty(), "no pictures to put together", "this is a bug");
  const auto count = static_cast<std::int64_t>(images.size());
  const auto square = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::int64_t columns = options.columns > 0 ? std::min(options.columns, count) : square;
  const std::int64_t rows = (count + columns - 1) / columns;
  ImageSize cell;
  for (const Image& image : images) {
    cell = {std::max(cell.height, image.height), std::max(cell.width, image.width)};
  }
  cell = {cell.height + options.gap, cell.width + options.gap};
  Image sheet = blank({rows * cell.height + options.gap, columns * cell.width + options.gap});
  for (std::int64_t i = 0; i < count; ++i) {
    paste(images[static_cast<std::size_t>(i)], sheet, options.gap + i / columns * cell.height,
          options.gap + i % columns * cell.width);
  }
  return sheet;
}

Image captioned(const Image& image, const std::string& text) {
  const double height = 1.15 * vis::style_for(image.size()).text_height;
  const cv::Size plate = vis::plate_size(text, height);
  Image sheet = blank({image.height + plate.height, image.width});
  paste(image, sheet, plate.height, 0);
  cv::Mat canvas = vis::view(sheet);
  vis::draw_plate(canvas, text, {0, 0}, {kGround, kGround, kGround}, height);
  return sheet;
}

}  // namespace detforge
