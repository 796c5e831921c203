#include "detforge/models/yolo/yolo_targets.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/yolo/anchor_grid.h"
#include "detforge/models/yolo/yolo_coder.h"

namespace detforge {
namespace {

/// The objects of one image, to be read without torch's cost per element.
struct Objects {
  Tensor boxes, labels;  // contiguous: they own what the pointers show
  const float* box = boxes.data_ptr<float>();
  const std::int64_t* label = labels.data_ptr<std::int64_t>();
};

Objects objects_of(const Targets& targets) {
  DETFORGE_CHECK(
      targets.labels.numel() == targets.boxes.size(0),
      fmt::format("{} labels for {} boxes", targets.labels.numel(), targets.boxes.size(0)),
      "give each box one label");
  return {targets.boxes.contiguous(), targets.labels.contiguous()};
}

/// Collects the targets of one scale image by image.
class ScaleTargets {
 public:
  ScaleTargets(const YoloScale& scale, const AnchorGrid& grid, std::int64_t images)
      : scale_(scale),
        grid_(grid),
        conf_(torch::zeros({images, grid.size()})),
        conf_weight_(torch::ones({images, grid.size()})) {}

  void add(std::int64_t image, const YoloAssignment& assignment, const Objects& objects) {
    float* conf = conf_.data_ptr<float>() + image * grid_.size();
    float* weight = conf_weight_.data_ptr<float>() + image * grid_.size();
    const std::int64_t* roles = assignment.gt_of_anchor.data() + grid_.first();
    for (std::int64_t i = 0; i < grid_.size(); ++i) {
      if (roles[i] == YoloAssignment::kIgnored) {
        weight[i] = 0.0F;
      } else if (roles[i] != YoloAssignment::kNegative) {
        conf[i] = 1.0F;
        add_positive(image, i, roles[i] - 1, objects);
      }
    }
    for (const YoloAssignment::Match& match : assignment.further_classes) {
      add_class(image, match, objects);
    }
  }

  YoloTargets finish(const YoloLossOptions& options, std::int64_t num_classes) {
    const std::int64_t anchors = grid_.anchors_per_cell();
    const auto count = static_cast<std::int64_t>(index_.size());
    const Tensor index = torch::tensor(index_, torch::kLong);
    const Tensor gt_boxes = torch::tensor(gt_boxes_, torch::kFloat).view({count, 4});
    const Tensor anchor_boxes = yolo_anchors(scale_, grid_.grid()).index_select(0, index);
    Tensor classes = torch::zeros({count, num_classes});
    classes.index_put_({torch::tensor(class_rows_, torch::kLong),  // checks the range of labels
                        torch::tensor(class_labels_, torch::kLong)},
                       1.0);
    return {.conf = conf_.view({conf_.size(0), -1, anchors}),
            .conf_weight = conf_weight_.view({conf_.size(0), -1, anchors}),
            .image = torch::tensor(image_, torch::kLong),
            .cell = torch::div(index, anchors, "floor"),
            .anchor = index.remainder(anchors),
            .boxes = encode_yolo_boxes(anchor_boxes, gt_boxes, scale_),
            .box_weight = box_weight(gt_boxes, options.assigner),
            .classes = classes};
  }

 private:
  void add_positive(std::int64_t image,
                    std::int64_t index,
                    std::int64_t gt,
                    const Objects& objects) {
    const float* box = objects.box + 4 * gt;
    class_rows_.push_back(static_cast<std::int64_t>(index_.size()));
    class_labels_.push_back(objects.label[gt]);
    image_.push_back(image);
    index_.push_back(index);
    gt_boxes_.insert(gt_boxes_.end(), box, box + 4);
  }

  /// One more class for a positive anchor of this scale.
  void add_class(std::int64_t image, const YoloAssignment::Match& match, const Objects& objects) {
    for (std::size_t row = 0; row < index_.size(); ++row) {
      if (image_[row] == image && index_[row] + grid_.first() == match.anchor) {
        class_rows_.push_back(static_cast<std::int64_t>(row));
        class_labels_.push_back(objects.label[match.gt]);
      }
    }
  }

  Tensor box_weight(const Tensor& gt_boxes, YoloAssigner assigner) const {
    if (assigner == YoloAssigner::kGrid) {
      return torch::ones({gt_boxes.size(0)});
    }
    const auto image_area = static_cast<double>(grid_.grid().height * grid_.grid().width *
                                                grid_.stride() * grid_.stride());
    const Tensor size = gt_boxes.slice(1, 2, 4) - gt_boxes.slice(1, 0, 2);
    return 2.0 - size.prod(1) / image_area;
  }

  const YoloScale& scale_;
  const AnchorGrid& grid_;
  Tensor conf_, conf_weight_;
  std::vector<std::int64_t> image_, index_;  // of positive anchors; index within the scale
  std::vector<float> gt_boxes_;
  std::vector<std::int64_t> class_rows_, class_labels_;  // ones of `classes`
};

/// The boxes that the network predicts for one image now, of all anchors.
Tensor predicted_boxes(const std::vector<Tensor>& maps,
                       const YoloLayout& layout,
                       std::int64_t image) {
  std::vector<Tensor> boxes;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const YoloScale& scale = layout.scales[i];
    const Tensor rows =
        yolo_rows(maps[i].slice(0, image, image + 1), scale).slice(3, 0, 4).reshape({-1, 4});
    boxes.push_back(
        decode_yolo_rows(yolo_anchors(scale, {maps[i].size(2), maps[i].size(3)}), rows, scale));
  }
  return torch::cat(boxes);
}

}  // namespace

std::vector<YoloTargets> yolo_targets(const std::vector<Tensor>& maps,
                                      const YoloLayout& layout,
                                      const std::vector<Targets>& targets,
                                      const YoloLossOptions& options) {
  const torch::NoGradGuard no_grad;
  check_yolo_maps(maps, layout);
  DETFORGE_CHECK(static_cast<std::int64_t>(targets.size()) == maps[0].size(0),
                 fmt::format("{} targets for a batch of {}", targets.size(), maps[0].size(0)),
                 "give each image its targets");
  const std::vector<ImageSize> sizes = yolo_grids(maps);
  const std::vector<AnchorGrid> grids = anchor_grids(layout.scales, sizes);
  std::vector<ScaleTargets> scales;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    scales.emplace_back(layout.scales[i], grids[i], maps[0].size(0));
  }
  for (std::size_t image = 0; image < targets.size(); ++image) {
    const auto number = static_cast<std::int64_t>(image);
    const Tensor& gt_boxes = targets[image].boxes;
    const YoloAssignment assignment =
        options.assigner == YoloAssigner::kGrid
            ? assign_on_grid(layout.scales, sizes, gt_boxes, options.grid)
            : assign_as_darknet(layout.scales, sizes, predicted_boxes(maps, layout, number),
                                gt_boxes, options.darknet);
    const Objects objects = objects_of(targets[image]);
    for (ScaleTargets& scale : scales) {
      scale.add(number, assignment, objects);
    }
  }
  std::vector<YoloTargets> finished;
  for (ScaleTargets& scale : scales) {
    finished.push_back(scale.finish(options, layout.num_classes));
  }
  return finished;
}

}  // namespace detforge
