#include "detforge/eval/coco_ground_truth.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/eval/work_queue.h"
#include "detforge/structures/polygon_raster.h"

namespace detforge {
namespace {

/// False for what no detection could ever match; such annotations are reported when the file is
/// checked.
bool has_box(const CocoAnnotation& annotation) {
  return annotation.box_numbers == 4 &&
         std::all_of(annotation.box_xywh.begin(), annotation.box_xywh.end(),
                     [](double number) { return std::isfinite(number); });
}

void append_image(const CocoStore& store, const CocoImage& image, EvalInputs& inputs) {
  inputs.image_ids.push_back(image.id);
  for (const CocoAnnotation& annotation : store.annotations(image)) {
    if (!has_box(annotation)) {
      continue;
    }
    inputs.ground_truth.push_back({.image_id = annotation.image_id,
                                   .category_id = annotation.category_id,
                                   .id = annotation.id,
                                   .x = annotation.box_xywh[0],
                                   .y = annotation.box_xywh[1],
                                   .width = annotation.box_xywh[2],
                                   .height = annotation.box_xywh[3],
                                   .area = annotation.area,
                                   .is_crowd = annotation.is_crowd,
                                   .store_index = &annotation - store.annotations().data()});
  }
}

EvalInputs with_categories(const CocoStore& store) {
  EvalInputs inputs;
  for (const CocoCategory& category : store.categories()) {
    inputs.categories.push_back({.id = category.id, .name = category.name});
  }
  return inputs;
}

/// Big enough that threads seldom wait for each other, small enough to share the work evenly.
constexpr std::size_t kMasksPerBlock = 64;

Rle mask_of(const CocoStore& store, const EvalGroundTruth& object) {
  try {
    DETFORGE_CHECK(object.store_index >= 0 && object.store_index < std::ssize(store.annotations()),
                   "the object does not come from this data set",
                   "make the objects with eval_inputs() of the same CocoStore");
    const CocoImage* image = store.find_image(object.image_id);
    DETFORGE_CHECK(image != nullptr && image->size.height > 0 && image->size.width > 0,
                   "the size of the image is not known, so its masks cannot be drawn",
                   "write \"height\" and \"width\" of each image into the annotation file");
    const auto index = static_cast<std::size_t>(object.store_index);
    return segmentation_mask(store.segmentation(store.annotations()[index]), image->size);
  } catch (Error& error) {
    error.add_where(fmt::format("annotation {}, image {}", object.id, object.image_id));
    throw;
  }
}

}  // namespace

EvalInputs eval_inputs(const CocoStore& store) {
  EvalInputs inputs = with_categories(store);
  inputs.ground_truth.reserve(store.annotations().size());
  for (const CocoImage& image : store.images()) {
    append_image(store, image, inputs);
  }
  return inputs;
}

EvalInputs eval_inputs(const CocoStore& store, std::span<const std::int64_t> image_ids) {
  EvalInputs inputs = with_categories(store);
  for (const std::int64_t id : image_ids) {
    const CocoImage* image = store.find_image(id);
    DETFORGE_CHECK(image != nullptr, fmt::format("image id {} is not in the data set", id),
                   "give ids of the annotation file");
    append_image(store, *image, inputs);
  }
  return inputs;
}

RleList ground_truth_masks(const CocoStore& store, const EvalInputs& inputs, int threads) {
  const std::size_t count = inputs.ground_truth.size();
  std::vector<RleList> blocks((count + kMasksPerBlock - 1) / kMasksPerBlock);
  run_in_threads(threads, blocks.size(), [&](WorkQueue& queue) {
    while (const auto block = queue.next()) {
      const std::size_t end = std::min(count, (*block + 1) * kMasksPerBlock);
      for (std::size_t i = *block * kMasksPerBlock; i < end; ++i) {
        blocks[*block].push_back(mask_of(store, inputs.ground_truth[i]));
      }
    }
  });
  RleList masks;
  for (const RleList& block : blocks) {
    masks.append(block);
  }
  return masks;
}

}  // namespace detforge
