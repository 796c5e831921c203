#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/models/box_coder.h"
#include "detforge/ops/paste_masks.h"
#include "detforge/structures/rle.h"
#include "support/torch/rcnn_case.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;
using test::expect_close_l2;
using test::NpyArray;
using test::Npz;
using test::ParityCase;
using test::to_tensor;

// Tolerances: 20 to 50 times the numeric_spread of case.json, relative to values of a few units to
// a few hundred.
constexpr test::Tolerance kMaps{.rtol = 1e-4, .atol = 2e-3};
constexpr test::Tolerance kBoxes{.rtol = 1e-5, .atol = 5e-3};
constexpr test::Tolerance kLogits{.rtol = 1e-4, .atol = 1e-3};

std::string test_name(const testing::TestParamInfo<ParityCase>& info) {
  return fmt::format("{}_{}", info.param.name(), info.index);
}

// Order of roi_* arrays: by (class, x0, y0, x1, y1).
Tensor canonical_order(const SampledRois& rois) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rois.labels.numel()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto boxes = rois.boxes.accessor<float, 2>();
  const auto labels = rois.labels.accessor<std::int64_t, 1>();
  const auto key = [&](std::int64_t i) {
    return std::tuple(labels[i], boxes[i][0], boxes[i][1], boxes[i][2], boxes[i][3]);
  };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  return torch::tensor(order, torch::kLong);
}

class RcnnParity : public testing::TestWithParam<ParityCase> {
 protected:
  void SetUp() override {
    model_ = test::rcnn_case_model(GetParam());
    const Npz inputs = test::read_npz(GetParam().folder / "inputs.npz");
    images_ = test::rcnn_case_images(inputs);
    targets_ = test::case_targets(inputs);
  }

  Npz arrays(const std::string& file) const { return test::read_npz(GetParam().folder / file); }

  // `name`, or channel 0 of it under NAME_c0 in the cases of full width.
  static void expect_map(const Npz& expected, const std::string& name, const Tensor& map) {
    if (expected.count(name) == 1) {
      EXPECT_TRUE(expect_close(map, to_tensor(expected.at(name)), kMaps)) << name;
    } else {
      EXPECT_TRUE(expect_close(map.select(1, 0), to_tensor(expected.at(name + "_c0")), kMaps))
          << name;
    }
  }

  void expect_proposals(const Npz& expected, const std::vector<Proposals>& proposals) const {
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      EXPECT_TRUE(expect_close(proposals[i].boxes,
                               to_tensor(expected.at(fmt::format("proposals{}", i))), kBoxes));
      EXPECT_TRUE(expect_close(proposals[i].logits,
                               to_tensor(expected.at(fmt::format("proposal_logits{}", i))),
                               kLogits));
    }
  }

  // Areas of all pasted masks, pixels of the first ones: at least 99.9 % must agree.
  void expect_pasted(const Npz& expected, std::size_t image, const Detections& found) const {
    const auto output = GetParam().description["output_sizes"][image];
    const ImageSize size{output[0], output[1]}, network = images_.sizes[image];
    const auto scale_x = static_cast<float>(size.width) / static_cast<float>(network.width);
    const auto scale_y = static_cast<float>(size.height) / static_cast<float>(network.height);
    const Tensor boxes =
        clip_boxes(found.boxes * torch::tensor({scale_x, scale_y, scale_x, scale_y}), size);
    const std::vector<Rle> pasted = paste_masks(found.masks, boxes, size);
    const auto areas = expected.at(fmt::format("post_mask_area{}", image)).to_i64();
    const NpyArray& bits = expected.at(fmt::format("post_masks_bits{}", image));
    const auto pixels = static_cast<std::size_t>(size.height * size.width);
    ASSERT_EQ(pasted.size(), areas.size());  // no box of these cases is left empty
    std::int64_t area_difference = 0, pixel_difference = 0;
    std::vector<std::uint8_t> mask(pixels);
    for (std::size_t d = 0; d < pasted.size(); ++d) {
      area_difference += std::abs(rle_area(pasted[d].counts) - areas[d]);
      if (static_cast<std::int64_t>(d) >= bits.shape[0]) {
        continue;
      }
      decode_mask(pasted[d], mask);
      const auto* packed = bits.bytes.data() + d * static_cast<std::size_t>(bits.shape[1]);
      for (std::size_t p = 0; p < pixels; ++p) {
        const int bit = static_cast<unsigned char>(packed[p / 8]) >> (7 - p % 8) & 1;
        pixel_difference += bit != mask[p] ? 1 : 0;
      }
    }
    RecordProperty("pixels_that_differ", static_cast<int>(pixel_difference));
    EXPECT_LE(static_cast<double>(pixel_difference), 1e-3 * static_cast<double>(12 * pixels));
    EXPECT_LE(static_cast<double>(area_difference),
              1e-3 * static_cast<double>(std::accumulate(areas.begin(), areas.end(), 0L)));
  }

  std::unique_ptr<FasterRcnn> model_;
  ImageBatch images_;
  std::vector<Targets> targets_;
};

TEST_P(RcnnParity, MapsProposalsAndAnchorLabelsEqualDetectron2) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("train.npz");
  const std::vector<Tensor> features = model_->backbone()->forward(images_.images);
  for (std::size_t level = 0; level < features.size(); ++level) {
    expect_map(expected, fmt::format("fpn_p{}", level + 2), features[level]);
  }
  const auto head = model_->proposal_generator()->head()->forward(features);
  for (std::size_t level = 0; level < head.size(); ++level) {
    expect_map(expected, fmt::format("rpn_logits{}", level), head[level].logits);
    expect_map(expected, fmt::format("rpn_deltas{}", level), head[level].deltas);
  }
  const RpnImpl::Output rpn = model_->proposal_generator()->forward(images_, features);
  expect_proposals(expected, rpn.proposals);
  std::vector<Tensor> anchors;
  for (const LevelPredictions& level : rpn.levels) {
    anchors.push_back(level.anchors);
  }
  for (std::size_t i = 0; i < targets_.size() && expected.count("rpn_gt_labels0") == 1; ++i) {
    const AnchorTargets labels =
        model_->proposal_generator()->label_anchors(torch::cat(anchors), images_, i, targets_[i]);
    EXPECT_TRUE(
        expect_close(labels.labels, to_tensor(expected.at(fmt::format("rpn_gt_labels{}", i))), {}));
  }
}

TEST_P(RcnnParity, SampledRoisAndTheirPredictionsEqualDetectron2) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("train.npz");
  const std::vector<Tensor> features = model_->backbone()->forward(images_.images);
  const RpnImpl::Output rpn = model_->proposal_generator()->forward(images_, features);
  const auto background = model_->roi_heads()->options().output.num_classes;
  std::vector<Tensor> boxes;
  std::int64_t foreground_count = 0;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const SampledRois rois =
        model_->roi_heads()->sample_rois(rpn.proposals[i].boxes, targets_[i], images_.rng_keys[i]);
    const Tensor order = canonical_order(rois);
    const Tensor labels = rois.labels.index_select(0, order);
    boxes.push_back(rois.boxes.index_select(0, order));
    foreground_count += (labels < background).sum().item<std::int64_t>();
    EXPECT_TRUE(
        expect_close(boxes.back(), to_tensor(expected.at(fmt::format("roi_boxes{}", i))), kBoxes));
    EXPECT_TRUE(
        expect_close(labels, to_tensor(expected.at(fmt::format("roi_gt_classes{}", i))), {}));
    const auto gt_name = fmt::format("roi_gt_boxes{}", i);
    if (expected.count(gt_name) == 1) {  // zeros for background there
      const Tensor foreground = (labels < background).unsqueeze(1);
      EXPECT_TRUE(expect_close(rois.gt_boxes.index_select(0, order) * foreground,
                               to_tensor(expected.at(gt_name)), kBoxes));
    }
  }
  if (expected.count("num_mask_rois") == 1) {
    EXPECT_EQ(foreground_count, expected.at("num_mask_rois").to_i64()[0]);
  }
  const FastRcnnPredictorImpl::Output output = model_->roi_heads()->classify(features, boxes);
  const bool all = expected.count("roi_cls_logits") == 1;
  const Tensor logits = to_tensor(expected.at(all ? "roi_cls_logits" : "roi_cls_logits_100"));
  const Tensor deltas = to_tensor(expected.at(all ? "roi_box_deltas" : "roi_box_deltas_100"));
  EXPECT_TRUE(expect_close(output.logits.slice(0, 0, logits.size(0)), logits, kLogits));
  EXPECT_TRUE(expect_close(output.deltas.slice(0, 0, deltas.size(0)), deltas, kLogits));
}

TEST_P(RcnnParity, LossesAndGradientsEqualDetectron2) {
  const Npz expected = arrays("train.npz");
  const Npz gradients = arrays("grads.npz");
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : model_->losses(images_, targets_)) {
    EXPECT_TRUE(expect_close(loss.reshape({1}), to_tensor(expected.at("loss/" + name)),
                             {.rtol = 1e-4, .atol = 1e-9}))
        << name;
    total = total + loss;
  }
  total.backward();
  std::map<std::string, Tensor> grads;
  for (const auto& item : model_->named_parameters()) {
    if (item.value().requires_grad()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      grads.emplace(item.key(), item.value().grad());
    }
  }
  if (!GetParam().description.contains("grad_names")) {
    EXPECT_EQ(grads.size(), gradients.size());
    for (const auto& [name, grad] : grads) {
      EXPECT_TRUE(expect_close_l2(grad, to_tensor(gradients.at(name)), 3e-3)) << name;
    }
    return;
  }
  const auto names = GetParam().description.at("grad_names").get<std::vector<std::string>>();
  EXPECT_EQ(grads.size(), names.size());
  const Tensor l2 = to_tensor(gradients.at("l2"));
  const Tensor first8 = to_tensor(gradients.at("first8"));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const Tensor grad = grads.at(names[i]).contiguous().view({-1});
    const double norm = l2[row].item<double>();
    EXPECT_NEAR(grad.norm().item<double>(), norm, 3e-3 * norm) << names[i];
    const std::int64_t count = std::min<std::int64_t>(8, grad.numel());
    EXPECT_TRUE(expect_close(grad.slice(0, 0, count), first8[row].slice(0, 0, count),
                             {.rtol = 3e-3, .atol = 3e-3 * grad.abs().max().item<double>()}))
        << names[i];
  }
}

TEST_P(RcnnParity, ProposalsAndDetectionsOfInferenceEqualDetectron2) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("infer.npz");
  model_->eval();
  const std::vector<Tensor> features = model_->backbone()->forward(images_.images);
  expect_proposals(expected, model_->proposal_generator()->forward(images_, features).proposals);
  const std::vector<Detections> detections = model_->predict(images_);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    EXPECT_TRUE(expect_close(detections[i].scores,
                             to_tensor(expected.at(fmt::format("det_scores{}", i))),
                             {.rtol = 1e-4, .atol = 1e-5}));
    EXPECT_TRUE(expect_close(detections[i].labels,
                             to_tensor(expected.at(fmt::format("det_classes{}", i))), {}));
    EXPECT_TRUE(expect_close(detections[i].boxes,
                             to_tensor(expected.at(fmt::format("det_boxes{}", i))), kBoxes));
  }
}

class MaskRcnnParity : public RcnnParity {};

TEST_P(MaskRcnnParity, MasksOfInferenceEqualDetectron2) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("infer.npz");
  model_->eval();
  const std::vector<Detections> detections = model_->predict(images_);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    const Tensor masks = to_tensor(expected.at(fmt::format("det_masks28_{}", i)));
    EXPECT_TRUE(expect_close(detections[i].masks.slice(0, 0, masks.size(0)), masks,
                             {.rtol = 1e-4, .atol = 1e-4}));
    expect_pasted(expected, i, detections[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         MaskRcnnParity,
                         testing::ValuesIn(test::parity_cases(test::has_masks)),
                         test_name);

INSTANTIATE_TEST_SUITE_P(Cases,
                         RcnnParity,
                         testing::ValuesIn(test::parity_cases(test::is_rcnn_case)),
                         test_name);

}  // namespace
}  // namespace detforge
