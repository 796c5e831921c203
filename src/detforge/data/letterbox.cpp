#include "detforge/data/letterbox.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {

Window letterbox_content(ImageSize picture, ImageSize box) {
  ImageSize size = box;
  if (box.width * picture.height < box.height * picture.width) {
    size.height = std::max<std::int64_t>(1, picture.height * box.width / picture.width);
  } else {
    size.width = std::max<std::int64_t>(1, picture.width * box.height / picture.height);
  }
  return {
      .left = (box.width - size.width) / 2, .top = (box.height - size.height) / 2, .size = size};
}

Letterbox::Letterbox(const Options& options, Interpolation interpolation)
    : options_(options), interpolation_(interpolation) {
  DETFORGE_CHECK(
      options.size.height > 0 && options.size.width > 0,
      fmt::format("a letterbox of {} x {} pixels", options.size.height, options.size.width),
      "give a positive size");
}

void Letterbox::apply(Sample& sample, Rng& /*rng*/) const {
  const Window content = letterbox_content(sample.image.size(), options_.size);
  resize_sample_(sample, content.size, interpolation_);
  cut_sample_(sample, {.left = -content.left, .top = -content.top, .size = options_.size},
              options_.fill);
  sample.content = content;
}

}  // namespace detforge
