#include "detforge/models/yolo/yolov3.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/init.h"
#include "detforge/models/input_checks.h"

namespace detforge {

YoloV3::YoloV3(const YoloV3Options& options, std::uint64_t seed) : options_(options) {
  backbone_ = register_module("backbone", Darknet53(options.darknet));
  neck_ = register_module("neck", YoloNeck(options.neck, backbone_->features()));
  bbox_head_ =
      register_module("bbox_head", YoloHead(options.head, options.neck.widths, options.layout));
  const auto& features = backbone_->features();
  for (std::size_t i = 0; i < features.size(); ++i) {
    DETFORGE_CHECK(options.layout.scales[features.size() - 1 - i].stride == features[i].stride,
                   fmt::format("a scale of stride {} reads {}, whose stride is {}",
                               options.layout.scales[features.size() - 1 - i].stride,
                               features[i].name, features[i].stride),
                   "list the scales coarsest first: strides 32, 16, 8");
  }
  initialize_weights(*this, seed);
  bbox_head_->initialize_biases(options.layout);
}

std::vector<Tensor> YoloV3::forward(const Tensor& images) {
  return bbox_head_->forward(neck_->forward(backbone_->forward(images)));
}

LossMap YoloV3::losses(const ImageBatch& images,
                       const std::vector<Targets>& targets,
                       const LossCounts* /*whole*/) {
  check_images(images, size_divisibility());
  check_targets(images, targets, options_.layout.num_classes);
  return yolo_losses(forward(input_map(images)), options_.layout, targets, options_.loss);
}

std::vector<Detections> YoloV3::predict(const ImageBatch& images) {
  check_images(images, size_divisibility());
  return yolo_detections(forward(input_map(images)), options_.layout, options_.output);
}

std::int64_t YoloV3::size_divisibility() const {
  return backbone_->features().back().stride;
}

}  // namespace detforge
