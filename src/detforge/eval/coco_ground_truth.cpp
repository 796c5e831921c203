#include "detforge/eval/coco_ground_truth.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"

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
                                   .is_crowd = annotation.is_crowd});
  }
}

EvalInputs with_categories(const CocoStore& store) {
  EvalInputs inputs;
  for (const CocoCategory& category : store.categories()) {
    inputs.categories.push_back({.id = category.id, .name = category.name});
  }
  return inputs;
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

}  // namespace detforge
