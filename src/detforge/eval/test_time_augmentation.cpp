#include "detforge/eval/test_time_augmentation.h"

#include <algorithm>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/data/flip.h"
#include "detforge/data/resize.h"
#include "detforge/models/box_coder.h"
#include "detforge/ops/nms.h"

namespace detforge {
namespace {

// x * std + mean is within 1e-4 of the whole number that it was.
Image picture_of(const ImageBatch& images, std::size_t index, const CollateOptions& collate) {
  const ImageSize size = images.sizes[index];
  const auto as_channels = [](const std::array<double, 3>& values) {
    return torch::tensor({values[0], values[1], values[2]}, torch::kFloat).view({3, 1, 1});
  };
  Tensor pixels = images.images[static_cast<std::int64_t>(index)]
                      .slice(1, 0, size.height)
                      .slice(2, 0, size.width);
  pixels = pixels * as_channels(collate.pixel_std) + as_channels(collate.pixel_mean);
  if (collate.rgb) {
    pixels = pixels.flip(0);
  }
  const Tensor bytes =
      pixels.round().clamp(0, 255).to(torch::kByte).permute({1, 2, 0}).contiguous();
  const std::uint8_t* data = bytes.data_ptr<std::uint8_t>();
  return {.height = size.height, .width = size.width, .bgr = {data, data + bytes.numel()}};
}

Tensor scaled(const Tensor& boxes, ImageSize from, ImageSize to) {
  const auto factor = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(b) / static_cast<double>(a);
  };
  const double x = factor(from.width, to.width), y = factor(from.height, to.height);
  return boxes * torch::tensor({x, y, x, y}, boxes.scalar_type());
}

Tensor mirrored(const Tensor& boxes, std::int64_t width) {
  const auto w = static_cast<double>(width);
  return torch::stack(
      {w - boxes.select(1, 2), boxes.select(1, 1), w - boxes.select(1, 0), boxes.select(1, 3)}, 1);
}

}  // namespace

AugmentedDetector::AugmentedDetector(std::shared_ptr<Detector> detector,
                                     const TestTimeAugmentationOptions& options)
    : detector_(std::move(detector)), options_(options) {
  DETFORGE_CHECK(!options.min_sizes.empty() && options.max_size > 0 &&
                     *std::min_element(options.min_sizes.begin(), options.min_sizes.end()) > 0,
                 "test-time augmentation has no views, or views of no size",
                 "set TEST.AUG.MIN_SIZES and MAX_SIZE to positive lengths");
  register_module("detector", detector_);
}

LossMap AugmentedDetector::losses(const ImageBatch& images,
                                  const std::vector<Targets>& targets,
                                  const LossCounts* whole) {
  return detector_->losses(images, targets, whole);
}

LossCounts AugmentedDetector::loss_counts(const ImageBatch& images,
                                          const std::vector<Targets>& targets) {
  return detector_->loss_counts(images, targets);
}

std::vector<Detections> AugmentedDetector::predict(const ImageBatch& images) {
  std::vector<Detections> detections;
  for (std::size_t i = 0; i < images.sizes.size(); ++i) {
    detections.push_back(predict(picture_of(images, i, options_.collate)));
  }
  return detections;
}

std::vector<Detections> AugmentedDetector::predict_boxes(const ImageBatch& images) {
  std::vector<Detections> detections;
  for (std::size_t i = 0; i < images.sizes.size(); ++i) {
    detections.push_back(find_boxes(picture_of(images, i, options_.collate)));
  }
  return detections;
}

std::vector<Tensor> AugmentedDetector::predict_masks(const ImageBatch& images,
                                                     const std::vector<Detections>& detections) {
  if (!has_masks()) {
    return Detector::predict_masks(images, detections);  // an error
  }
  DETFORGE_CHECK(
      detections.size() == images.sizes.size(),
      fmt::format("{} images come with {} lists of detections", images.count(), detections.size()),
      "give one list for each image");
  std::vector<Tensor> masks;
  for (std::size_t i = 0; i < images.sizes.size(); ++i) {
    masks.push_back(average_masks(picture_of(images, i, options_.collate), detections[i]));
  }
  return masks;
}

Detections AugmentedDetector::predict(const Image& image) {
  Detections found = find_boxes(image);
  if (has_masks()) {
    found.masks = average_masks(image, found);
  }
  return found;
}

Detections AugmentedDetector::find_boxes(const Image& image) {
  const torch::NoGradGuard no_grad;
  std::vector<Detections> found;
  for (const View& view : views_of(image.size())) {
    Detections seen = detector_->predict_boxes(make_batch(image, view)).front();
    const Tensor upright = view.flipped ? mirrored(seen.boxes, view.size.width) : seen.boxes;
    seen.boxes = scaled(upright, view.size, image.size());
    found.push_back(std::move(seen));
  }
  return merge(found, image.size());
}

std::vector<AugmentedDetector::View> AugmentedDetector::views_of(ImageSize size) const {
  std::vector<View> views;
  for (const std::int64_t min_size : options_.min_sizes) {
    const ImageSize view = shortest_edge_size(size, min_size, options_.max_size);
    views.push_back({view, false});
    if (options_.flip) {
      views.push_back({view, true});
    }
  }
  return views;
}

ImageBatch AugmentedDetector::make_batch(const Image& image, const View& view) const {
  Sample sample;
  sample.original_size = image.size();
  sample.image = resize_bilinear(image, view.size);
  if (view.flipped) {
    flip_horizontal_(sample.image);
  }
  return collate({std::move(sample)}, options_.collate).images;
}

Detections AugmentedDetector::merge(const std::vector<Detections>& found, ImageSize size) const {
  std::vector<Tensor> boxes, scores, labels;
  for (const Detections& view : found) {
    boxes.push_back(view.boxes);
    scores.push_back(view.scores);
    labels.push_back(view.labels);
  }
  const Tensor all_boxes = torch::cat(boxes), all_scores = torch::cat(scores);
  const Tensor usable =
      all_boxes.isfinite().all(1).logical_and(all_scores > 1e-8).nonzero().squeeze(1);
  const Tensor clipped = clip_boxes(all_boxes.index_select(0, usable), size);
  const Tensor usable_scores = all_scores.index_select(0, usable);
  const Tensor usable_labels = torch::cat(labels).index_select(0, usable);
  const Tensor kept = batched_nms(clipped, usable_scores, usable_labels, options_.nms_threshold,
                                  options_.detections_per_image);
  return {.boxes = clipped.index_select(0, kept),
          .scores = usable_scores.index_select(0, kept),
          .labels = usable_labels.index_select(0, kept)};
}

// Masks lie on a grid over their box, so that the views' sizes do not matter, but the flips do.
Tensor AugmentedDetector::average_masks(const Image& image, const Detections& found) const {
  const torch::NoGradGuard no_grad;
  const std::vector<View> views = views_of(image.size());
  Tensor sum;
  for (const View& view : views) {
    Detections placed = found;
    placed.boxes = scaled(found.boxes, image.size(), view.size);
    if (view.flipped) {
      placed.boxes = mirrored(placed.boxes, view.size.width);
    }
    Tensor masks = detector_->predict_masks(make_batch(image, view), {placed}).front();
    masks = view.flipped ? masks.flip(2) : masks;
    sum = sum.defined() ? sum + masks : masks;
    if (found.boxes.size(0) == 0) {
      return sum;  // of no masks: the other views have nothing to add
    }
  }
  return sum / static_cast<double>(views.size());
}

}  // namespace detforge
