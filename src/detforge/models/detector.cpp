#include "detforge/models/detector.h"

#include "detforge/core/error.h"
#include "detforge/ops/map_type.h"

namespace detforge {

LossCounts Detector::loss_counts(const ImageBatch& images, const std::vector<Targets>&) {
  return {.images = images.count()};
}

Tensor Detector::input_map(const ImageBatch& images) const {
  return to_map_type(images.images, map_type_);
}

std::vector<Tensor> Detector::predict_masks(const ImageBatch&, const std::vector<Detections>&) {
  throw Error("the model predicts no masks", "use a Mask R-CNN (MODEL.MASK_ON True)")
      .at(__FILE__, __LINE__);
}

}  // namespace detforge
