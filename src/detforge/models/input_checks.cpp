#include "detforge/models/input_checks.h"

#include <string>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {

void check_images(const ImageBatch& images, std::int64_t multiple) {
  const Tensor& pixels = images.images;
  DETFORGE_CHECK(pixels.dim() == 4 && pixels.size(1) == 3 && pixels.size(0) == images.count(),
                 "the image batch is not [N,3,H,W] with one size per image",
                 "make it with the loader's collate step");
  DETFORGE_CHECK(pixels.size(2) % multiple == 0 && pixels.size(3) % multiple == 0,
                 fmt::format("the image batch is {}x{}, not a multiple of {}", pixels.size(2),
                             pixels.size(3), multiple),
                 fmt::format("pad images to multiples of {}", multiple));
}

void check_targets(const ImageBatch& images,
                   const std::vector<Targets>& targets,
                   std::int64_t num_classes) {
  const auto count = static_cast<std::size_t>(images.count());
  DETFORGE_CHECK(targets.size() == count,
                 fmt::format("{} images come with {} targets", count, targets.size()),
                 "give each image its targets");
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& labels = targets[i].labels;
    const bool fits = labels.numel() == 0 || (labels.min().item<std::int64_t>() >= 0 &&
                                              labels.max().item<std::int64_t>() < num_classes);
    DETFORGE_CHECK(
        fits && labels.size(0) == targets[i].boxes.size(0),
        fmt::format("targets of image {} have a class outside 0..{}, or not one class per box",
                    i < images.paths.size() ? images.paths[i] : std::to_string(i), num_classes - 1),
        "set NUM_CLASSES to the number of the dataset's categories");
  }
}

}  // namespace detforge
