#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/models/yolo/anchor_grid.h"
#include "detforge/models/yolo/yolo_coder.h"
#include "support/torch/tensors.h"
#include "support/torch/yolo_case.h"

namespace detforge {
namespace {

using test::expect_close;
using test::expect_close_l2;
using test::Npz;
using test::ParityCase;
using test::to_tensor;

// 10 to 50 times the numeric_spread of case.json; maps reach a few tens.
constexpr test::Tolerance kMaps{.rtol = 1e-4, .atol = 5e-3};
constexpr test::Tolerance kBoxes{.rtol = 1e-5, .atol = 5e-3};

std::string test_name(const testing::TestParamInfo<ParityCase>& info) {
  return fmt::format("{}_{}", info.param.name(), info.index);
}

class YoloParity : public testing::TestWithParam<ParityCase> {
 protected:
  void SetUp() override {
    model_ = test::yolo_case_model(GetParam());
    images_ = test::yolo_case_images(GetParam());
    targets_ = test::case_targets(arrays("inputs.npz"));
  }

  Npz arrays(const std::string& file) const { return test::read_npz(GetParam().folder / file); }
  const YoloLayout& layout() const { return model_->options().layout; }

  // The whole map under `name`, or its first channels under `part`.
  static void expect_map(const Npz& expected,
                         const std::string& name,
                         const std::string& part,
                         const Tensor& map) {
    const auto found = expected.find(expected.count(name) == 1 ? name : part);
    ASSERT_NE(found, expected.end()) << name;
    const Tensor want = to_tensor(found->second);
    EXPECT_TRUE(expect_close(map.slice(1, 0, want.size(1)), want, kMaps)) << name;
  }

  // 3e-3, or three times what two runs of the reference itself differ by.
  double gradient_limit() const {
    const auto& worst =
        GetParam().description["numeric_spread"]["grads_worst_max_abs_diff_over_max_abs"];
    return std::max(3e-3, 3 * worst[0][0].get<double>());
  }

  std::map<std::string, Tensor> gradients() const {
    std::map<std::string, Tensor> grads;
    for (const auto& item : model_->named_parameters()) {
      EXPECT_TRUE(item.value().grad().defined()) << item.key();
      grads.emplace(item.key(), item.value().grad());
    }
    return grads;
  }

  void expect_gradient_norms(const Npz& expected) const {
    const auto names = GetParam().description.at("grad_names").get<std::vector<std::string>>();
    const auto grads = gradients();
    ASSERT_EQ(grads.size(), names.size());
    const Tensor first8 = to_tensor(expected.at("first8"));
    const auto l2 = expected.at("l2").to_double();
    double worst = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor grad = grads.at(names[i]).contiguous().view({-1});
      const double norm = grad.norm().item<double>();
      EXPECT_NEAR(norm, l2[i], gradient_limit() * l2[i]) << names[i];
      worst = std::max(worst, std::abs(norm / l2[i] - 1));
      const std::int64_t count = std::min<std::int64_t>(8, grad.numel());
      EXPECT_TRUE(expect_close(grad.slice(0, 0, count),
                               first8[static_cast<std::int64_t>(i)].slice(0, 0, count),
                               {.atol = gradient_limit() * grad.abs().max().item<double>()}))
          << names[i];
    }
    record("worst_gradient_norm_difference", worst);
  }

  // A figure for the test's report.
  static void record(const std::string& name, double difference) {
    RecordProperty(name, fmt::format("{:.2e}", difference));
  }

  std::unique_ptr<YoloV3> model_;
  ImageBatch images_;
  std::vector<Targets> targets_;
};

TEST_P(YoloParity, MapsAndStatisticsOfTrainingEqualMmdetection) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("train.npz");
  const std::vector<Tensor> maps = model_->forward(images_.images);
  const std::string statistics = (GetParam().folder / "batchnorm.npz").string();
  if (std::filesystem::exists(statistics)) {
    const auto state = test::state_of(*model_);
    for (const auto& [name, array] : test::read_npz(statistics)) {
      EXPECT_TRUE(expect_close_l2(state.at(name), to_tensor(array), 1e-4)) << name;
    }
  }
  // The second pass sees the same batch statistics, so that the neck's maps are those of the first.
  const std::vector<Tensor> neck =
      model_->neck()->forward(model_->backbone()->forward(images_.images));
  for (std::size_t i = 0; i < maps.size(); ++i) {
    expect_map(expected, fmt::format("pred{}", i), fmt::format("pred{}_c0to7", i), maps[i]);
    expect_map(expected, fmt::format("neck{}", i), fmt::format("neck{}_c0to7", i), neck[i]);
  }
}

TEST_P(YoloParity, TargetsEqualMmdetection) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("train.npz");
  const std::vector<Tensor> maps = model_->forward(images_.images);
  const auto targets = yolo_targets(maps, layout(), targets_, {});
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const YoloTargets& t = targets[i];
    const std::int64_t count = t.conf.size(0), anchors = t.conf[0].numel();
    EXPECT_EQ(t.image.numel(), GetParam().description["n_positives"][i].get<std::int64_t>());
    const Tensor negative = (t.conf_weight - t.conf).to(torch::kByte).view({count, anchors});
    EXPECT_TRUE(negative.equal(to_tensor(expected.at(fmt::format("neg{}", i)))));
    Tensor dense =
        torch::zeros({count, t.conf.size(1), t.conf.size(2), layout().values_per_anchor()});
    dense.select(3, 4).copy_(t.conf);
    const Tensor rows = torch::cat({t.boxes, torch::ones({t.image.numel(), 1}), t.classes}, 1);
    dense.index_put_({t.image, t.cell, t.anchor}, rows);
    const std::string name = fmt::format("target{}", i);
    const Tensor want =
        to_tensor(expected.at(expected.count(name) == 1 ? name : name + "_xywh_obj"));
    EXPECT_TRUE(expect_close(dense.view({count, anchors, -1}).slice(2, 0, want.size(2)), want,
                             {.rtol = 1e-6, .atol = 1e-6}))
        << name;
  }
}

TEST_P(YoloParity, LossesAndGradientsEqualMmdetection) {
  const Npz expected = arrays("train.npz");
  const std::vector<Tensor> maps = model_->forward(images_.images);
  const auto targets = yolo_targets(maps, layout(), targets_, {});
  double worst = 0;
  const auto expect_loss = [&](const std::string& name, const Tensor& loss) {
    const double want = expected.at("loss/" + name).to_double()[0];
    EXPECT_NEAR(loss.item<double>(), want, 1e-4 * want + 1e-7) << name;
    worst = std::max(worst, std::abs(loss.item<double>() - want) / std::max(want, 1e-7));
  };
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const YoloLosses losses =
        yolo_scale_losses(maps[i], layout().scales[i], targets[i], YoloLossOptions{});
    expect_loss(fmt::format("loss_cls{}", i), losses.cls);
    expect_loss(fmt::format("loss_conf{}", i), losses.conf);
    expect_loss(fmt::format("loss_xy{}", i), losses.xy);
    expect_loss(fmt::format("loss_wh{}", i), losses.wh);
  }
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : model_->losses(images_, targets_)) {
    total = total + loss;
  }
  expect_loss("total", total);
  record("worst_loss_difference", worst);
  total.backward();
  const Npz wanted = arrays("grads.npz");
  if (GetParam().description.contains("grad_names")) {
    expect_gradient_norms(wanted);
    return;
  }
  const auto grads = gradients();
  EXPECT_EQ(grads.size(), wanted.size());
  double worst_gradient = 0;
  for (const auto& [name, grad] : grads) {
    const Tensor want = to_tensor(wanted.at(name));
    EXPECT_TRUE(expect_close_l2(grad, want, gradient_limit())) << name;
    worst_gradient = std::max(worst_gradient, ((grad - want).norm() / want.norm()).item<double>());
  }
  record("worst_gradient_difference", worst_gradient);
}

TEST_P(YoloParity, DetectionsEqualMmdetection) {
  const torch::NoGradGuard no_grad;
  const Npz expected = arrays("infer.npz");
  model_->eval();
  const std::vector<Tensor> maps = model_->forward(images_.images);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    expect_map(expected, fmt::format("eval_pred{}", i), fmt::format("eval_pred{}", i), maps[i]);
  }
  const std::vector<Detections> detections = model_->predict(images_);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    const auto array = [&](const char* name) {
      return to_tensor(expected.at(fmt::format("{}{}", name, i)));
    };
    EXPECT_TRUE(
        expect_close(detections[i].scores, array("det_scores"), {.rtol = 1e-4, .atol = 1e-5}));
    EXPECT_TRUE(expect_close(detections[i].labels, array("det_classes"), {}));
    EXPECT_TRUE(expect_close(detections[i].boxes, array("det_boxes"), kBoxes));
    const auto scale = GetParam().description["scale_factor"];
    const Tensor factor = torch::tensor({scale[0].get<double>(), scale[1].get<double>(),
                                         scale[0].get<double>(), scale[1].get<double>()});
    EXPECT_TRUE(expect_close(detections[i].boxes / factor, array("det_boxes_rescaled"), kBoxes));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         YoloParity,
                         testing::ValuesIn(test::parity_cases(test::is_yolo_case)),
                         test_name);

class YoloUnitParity : public testing::TestWithParam<ParityCase> {
 protected:
  void SetUp() override {
    arrays_ = test::read_npz(GetParam().folder / "yolo_units.npz");
    for (const auto& size : GetParam().description["grids_hw"]) {
      grids_.push_back({size[0], size[1]});
    }
    const auto& strides = GetParam().description["strides"];
    ASSERT_EQ(strides.size(), scales_.size());
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      ASSERT_EQ(scales_[i].stride, strides[i].get<std::int64_t>());
    }
  }
  Tensor array(const std::string& name) const { return to_tensor(arrays_.at(name)); }

  Npz arrays_;
  std::vector<YoloScale> scales_ = yolov3_scales();
  std::vector<ImageSize> grids_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(YoloUnitParity);

TEST_P(YoloUnitParity, AnchorsEqualMmdetection) {
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    EXPECT_TRUE(yolo_anchors(scales_[i], grids_[i]).equal(array(fmt::format("priors{}", i))));
  }
}

TEST_P(YoloUnitParity, ResponsibleCellsEqualMmdetection) {
  const Tensor gt = array("gt");
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    const AnchorGrid grid(scales_[i], grids_[i]);
    Tensor responsible = torch::zeros({grid.size()}, torch::kByte);
    for (std::int64_t g = 0; g < gt.size(0); ++g) {
      const AnchorGrid::Cell cell = grid.cell_of(gt[g].data_ptr<float>());
      for (std::size_t a = 0; a < scales_[i].anchors.size(); ++a) {
        responsible[grid.index(cell, a)] = 1;
      }
    }
    EXPECT_TRUE(responsible.equal(array(fmt::format("responsible{}", i))));
  }
}

TEST_P(YoloUnitParity, AssignmentEqualsMmdetection) {
  const YoloAssignment assignment = assign_on_grid(scales_, grids_, array("gt"), {});
  EXPECT_EQ(assignment.gt_of_anchor, arrays_.at("assigned_gt_inds").to_i64());
}

TEST_P(YoloUnitParity, CoderEqualsMmdetection) {
  const Tensor strides = array("coder/strides");
  for (const YoloScale& scale : scales_) {
    const Tensor rows = strides.eq(scale.stride).nonzero().squeeze(1);
    ASSERT_GT(rows.numel(), 0);
    const auto part = [&](const char* name) {
      return array(std::string("coder/") + name).index_select(0, rows);
    };
    EXPECT_TRUE(expect_close(encode_yolo_boxes(part("priors"), part("gt"), scale), part("encoded"),
                             {.rtol = 1e-6, .atol = 1e-6}));
    EXPECT_TRUE(expect_close(decode_yolo_boxes(part("priors"), part("pred"), scale),
                             part("decoded"), {.rtol = 1e-6, .atol = 1e-5}));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         YoloUnitParity,
                         testing::ValuesIn(test::parity_cases([](const nlohmann::json& d) {
                           return d.contains("files") && d["files"].contains("yolo_units.npz");
                         })),
                         test_name);

}  // namespace
}  // namespace detforge
