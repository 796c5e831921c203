#include "detforge/models/rcnn/faster_rcnn.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/init.h"
#include "detforge/models/input_checks.h"
#include "detforge/models/kept_buffers.h"

namespace detforge {
FasterRcnn::FasterRcnn(const FasterRcnnOptions& options, std::uint64_t seed)
    : num_classes_(options.roi_heads.output.num_classes) {
  backbone_ = register_module("backbone", Fpn(ResNet(options.resnet), options.fpn));
  proposal_generator_ =
      register_module("proposal_generator", Rpn(options.rpn, backbone_->features()));
  roi_heads_ = register_module("roi_heads", RoiHeads(options.roi_heads, backbone_->features()));
  initialize_weights(*this, seed);
}

LossMap FasterRcnn::losses(const ImageBatch& images,
                           const std::vector<Targets>& targets,
                           const LossCounts* whole) {
  check(images, targets);
  const std::vector<Tensor> features = backbone_->forward(input_map(images));
  const RpnImpl::Output rpn = proposal_generator_->forward(images, features);
  LossMap losses = roi_heads_->losses(features, rpn.proposals, images, targets, whole);
  for (auto& loss : proposal_generator_->losses(rpn, images, targets, whole)) {
    losses.push_back(std::move(loss));
  }
  return losses;
}

LossCounts FasterRcnn::loss_counts(const ImageBatch& images, const std::vector<Targets>& targets) {
  check(images, targets);
  const torch::NoGradGuard no_grad;
  const ScopedBuffers kept(*this);  // batch norm counts every forward pass in training mode
  const std::vector<Tensor> features = backbone_->forward(input_map(images));
  const RpnImpl::Output rpn = proposal_generator_->forward(images, features);
  return roi_heads_->loss_counts(rpn.proposals, images, targets);
}

std::vector<Detections> FasterRcnn::predict(const ImageBatch& images) {
  check(images);
  const std::vector<Tensor> features = backbone_->forward(input_map(images));
  std::vector<Detections> detections = predict_boxes(images, features);
  if (has_masks()) {
    const std::vector<Tensor> masks = roi_heads_->predict_masks(features, detections);
    for (std::size_t i = 0; i < detections.size(); ++i) {
      detections[i].masks = masks[i];
    }
  }
  return detections;
}

std::vector<Detections> FasterRcnn::predict_boxes(const ImageBatch& images) {
  check(images);
  return predict_boxes(images, backbone_->forward(input_map(images)));
}

std::vector<Detections> FasterRcnn::predict_boxes(const ImageBatch& images,
                                                  const std::vector<Tensor>& features) {
  const RpnImpl::Output rpn = proposal_generator_->forward(images, features);
  return roi_heads_->predict_boxes(features, rpn.proposals, images);
}

std::vector<Tensor> FasterRcnn::predict_masks(const ImageBatch& images,
                                              const std::vector<Detections>& detections) {
  check(images);
  DETFORGE_CHECK(
      detections.size() == static_cast<std::size_t>(images.count()),
      fmt::format("{} images come with {} lists of detections", images.count(), detections.size()),
      "give one list for each image");
  return roi_heads_->predict_masks(backbone_->forward(input_map(images)), detections);
}

void FasterRcnn::check(const ImageBatch& images) const {
  check_images(images, size_divisibility());
}

void FasterRcnn::check(const ImageBatch& images, const std::vector<Targets>& targets) const {
  check(images);
  check_targets(images, targets, num_classes_);
  DETFORGE_CHECK(
      images.rng_keys.size() == targets.size(),
      fmt::format("{} images come with {} random keys", targets.size(), images.rng_keys.size()),
      "give each image a key");
}

}  // namespace detforge
