#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/structures/detections.h"
#include "detforge/structures/image_batch.h"
#include "detforge/structures/targets.h"

namespace detforge {

struct LossTerm {
  std::string name;  ///< as its users know it: loss_rpn_cls, loss_cls, ...
  Tensor value;      ///< a scalar, f32, with gradient
  /// Of what the value is a mean over (images, ROIs, masks): how many of them are in this batch.
  /// Nothing: the value is a plain sum.
  std::optional<double> count = {};
};

/// The terms of a loss, in a fixed order whatever the data; the total loss is their sum.
using LossMap = std::vector<LossTerm>;

/// The numbers that loss terms are means over. Losses of a part of a batch that are divided by
/// those of the whole batch add up to the losses of the whole batch.
struct LossCounts {
  std::int64_t images = 0;
  std::int64_t rois = 0;   ///< sampled ROIs of all images
  std::int64_t masks = 0;  ///< those of them that train the mask head

  LossCounts& operator+=(const LossCounts& other) {
    images += other.images;
    rois += other.rois;
    masks += other.masks;
    return *this;
  }
};

/// What training, evaluation and export see of a model. Parameter names are Detectron2's /
/// mmdetection's.
class Detector : public torch::nn::Module {
 public:
  /// Losses of one batch; targets[i] belongs to image i. Every trainable parameter gets a gradient
  /// (maybe zero) whatever the data, also when no image has an object. Terms that are means over
  /// images, ROIs or masks are divided by the numbers of `whole` if it is given: the batch is then
  /// a part of a larger one.
  virtual LossMap losses(const ImageBatch& images,
                         const std::vector<Targets>& targets,
                         const LossCounts* whole = nullptr) = 0;

  /// The numbers that losses() would divide by for this batch. Changes nothing in the model. May
  /// cost as much as predict(), where they depend on what the model finds. By default the number of
  /// images alone.
  virtual LossCounts loss_counts(const ImageBatch& images, const std::vector<Targets>& targets);

  /// Detections of each image in pixels of the network input (see eval/postprocess for file
  /// pixels). Call in eval mode without gradients.
  virtual std::vector<Detections> predict(const ImageBatch& images) = 0;

  /// predict() without the masks, where those cost extra (for test-time augmentation).
  virtual std::vector<Detections> predict_boxes(const ImageBatch& images) {
    return predict(images);
  }

  /// The type in which the network keeps maps between its layers (ops/map_type.h): f32, or 16 bits
  /// for mixed precision. What it predicts, its losses and everything about boxes is f32 always.
  at::ScalarType map_type() const { return map_type_; }
  void set_map_type(at::ScalarType type) { map_type_ = type; }

  /// True if predict() gives masks and losses() needs targets with masks.
  virtual bool has_masks() const { return false; }

  /// Masks [D,M,M] of given boxes and labels of each image, as predict() would give them (for
  /// test-time augmentation, which moves boxes from one view of an image to others). Scores are
  /// not looked at. Throws Error unless has_masks().
  virtual std::vector<Tensor> predict_masks(const ImageBatch& images,
                                            const std::vector<Detections>& detections);

 protected:
  /// The images as the first layer gets them.
  Tensor input_map(const ImageBatch& images) const;

 private:
  at::ScalarType map_type_ = at::kFloat;
};

}  // namespace detforge
