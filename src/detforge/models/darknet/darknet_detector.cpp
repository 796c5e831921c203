#include "detforge/models/darknet/darknet_detector.h"

#include <algorithm>

#include "detforge/models/init.h"
#include "detforge/models/input_checks.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

YoloLayout layout_of(const DarknetCfg& cfg) {
  YoloLayout layout{.scales = {}, .num_classes = cfg.num_classes};
  for (const DarknetLayer& layer : cfg.layers) {
    if (const auto* yolo = std::get_if<YoloSpec>(&layer.spec)) {
      layout.scales.push_back(
          {.stride = yolo->stride, .anchors = yolo->anchors, .scale_xy = yolo->scale_x_y});
    }
  }
  return layout;
}

double ignore_thresh_of(const DarknetCfg& cfg) {
  return std::get<YoloSpec>(cfg.layers.back().spec).ignore_thresh;  // the last is always a [yolo]
}

}  // namespace

DarknetDetector::DarknetDetector(DarknetDetectorOptions options, std::uint64_t seed)
    : loss_(options.loss), output_(options.output), layout_(layout_of(options.cfg)) {
  loss_.darknet.ignore_iou = ignore_thresh_of(options.cfg);
  layers_ = register_module("layers", DarknetNetwork(std::move(options.cfg)));
  initialize_weights(*this, seed);
  layers_->initialize_biases(layout_);
}

std::vector<Tensor> DarknetDetector::maps(const ImageBatch& images) {
  check_images(images, size_divisibility());
  std::vector<Tensor> maps = layers_->forward(input_map(images), images.rng_keys);
  std::transform(maps.begin(), maps.end(), maps.begin(), widen);
  return maps;
}

LossMap DarknetDetector::losses(const ImageBatch& images,
                                const std::vector<Targets>& targets,
                                const LossCounts*) {
  check_targets(images, targets, layout_.num_classes);
  return yolo_losses(maps(images), layout_, targets, loss_);
}

std::vector<Detections> DarknetDetector::predict(const ImageBatch& images) {
  return yolo_detections(maps(images), layout_, output_);
}

}  // namespace detforge
