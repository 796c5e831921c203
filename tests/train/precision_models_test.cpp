// Whole models of the parity cases in mixed precision.
#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/distributed/single_process.h"
#include "detforge/models/kept_buffers.h"
#include "detforge/train/model_state.h"
#include "detforge/train/nonfinite.h"
#include "detforge/train/precision.h"
#include "detforge/train/step.h"
#include "support/torch/rcnn_case.h"
#include "support/torch/yolo_case.h"
#include "train/precision_levels.h"

namespace detforge {
namespace {

using test::level;
using test::with_scale;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model of a parity case, with its images and targets.
struct RealCase {
  std::string name;
  std::unique_ptr<Detector> model;
  Batch batch;
};

std::vector<RealCase> real_cases() {
  std::vector<RealCase> cases;
  for (const test::ParityCase& c : test::parity_cases(test::is_rcnn_case)) {
    if (c.description.contains("steps")) {
      const test::Npz inputs = test::read_npz(c.folder / "inputs.npz");
      cases.push_back({c.folder.filename().string(),
                       test::rcnn_case_model(c),
                       {test::rcnn_case_images(inputs), test::case_targets(inputs)}});
    }
  }
  for (const test::ParityCase& c : test::parity_cases(test::is_yolo_case)) {
    if (c.description.contains("steps")) {
      const test::Npz inputs = test::read_npz(c.folder / "inputs.npz");
      cases.push_back({c.folder.filename().string(),
                       test::yolo_case_model(c),
                       {test::yolo_case_images(c), test::case_targets(inputs)}});
    }
  }
  return cases;
}

StepResult first_step(const RealCase& c, const PrecisionOptions& options) {
  const KeptBuffers buffers(*c.model);
  c.model->train();
  Sgd sgd(*c.model, {});
  SingleProcess alone;
  Precision precision(options);
  precision.apply(*c.model, sgd);
  const StepResult result =
      train_step(*c.model, sgd, alone, c.batch, {.lr = 0, .precision = &precision});
  buffers.restore();
  return result;
}

TEST(PrecisionParity, LossTermsOfEveryModelAreThoseOfF32) {
  const std::size_t count = real_cases().size();
  if (count == 0) {
    GTEST_SKIP() << "no case with steps in DETFORGE_PARITY_DIR (default ../shared/parity)";
  }
  for (std::size_t i = 0; i < count; ++i) {
    const StepResult f32 = first_step(real_cases()[i], level(OptLevel::kO0));
    for (const OptLevel opt : {OptLevel::kO1, OptLevel::kO2}) {
      for (const at::ScalarType half : {at::kHalf, at::kBFloat16}) {
        const RealCase c = std::move(real_cases()[i]);
        SCOPED_TRACE(c.name + (opt == OptLevel::kO1 ? " O1 " : " O2 ") + c10::toString(half));
        const StepResult mixed =
            first_step(c, with_scale(level(opt, half), LossScaleOptions{.value = 64}));
        ASSERT_TRUE(mixed.updated()) << mixed.nonfinite;
        for (std::size_t term = 0; term < f32.losses.size(); ++term) {
          const auto& [name, value] = f32.losses[term];
          // Rounding changes which proposals survive NMS; the smallest case has a handful of them.
          const double bound = name == "loss_box_reg" ? 0.05 : 0.02;
          EXPECT_NEAR(mixed.losses[term].second, value, bound * value) << name;
        }
        EXPECT_NEAR(mixed.grad_norm, f32.grad_norm, 0.05 * f32.grad_norm);
      }
    }
  }
}

// F42: a NaN that stays must not halve the scale for ever.
TEST(MixedPrecision, APersistentNanEndsTheRunAndNamesItsLayer) {
  auto cases = real_cases();
  if (cases.empty()) {
    GTEST_SKIP() << "no case with steps in DETFORGE_PARITY_DIR (default ../shared/parity)";
  }
  for (const auto& [suffix, layer] :
       {std::pair("res3.0.conv1.weight", "res3.0.conv1 gives NaN"),
        std::pair("conv_res_block2.conv.conv.weight", "conv_res_block2.conv gives NaN")}) {
    for (RealCase& c : cases) {
      Tensor weight;
      for (const auto& item : c.model->named_parameters()) {
        weight = item.key().ends_with(suffix) ? item.value() : weight;
      }
      if (!weight.defined()) {
        continue;
      }
      {
        const torch::NoGradGuard no_grad;
        weight.flatten()[0] = std::numeric_limits<float>::quiet_NaN();
      }
      const test::TemporaryFolder folder;
      c.model->train();
      Sgd sgd(*c.model, {});
      SingleProcess alone;
      Precision precision(level(OptLevel::kO2));
      precision.apply(*c.model, sgd);
      NonFiniteGuard guard(*c.model, precision, {.folder = folder.path()});
      std::string message;
      for (std::int64_t i = 0; i < 100 && message.empty(); ++i) {
        const StepResult result =
            train_step(*c.model, sgd, alone, c.batch, {.lr = 1e-4, .precision = &precision});
        try {
          guard.after_step({.iteration = i,
                            .batch = c.batch,
                            .result = result,
                            .lr = 1e-4,
                            .data_s = 0,
                            .step_s = 0,
                            .progress = {},
                            .last = false,
                            .stopping = false});
        } catch (const Error& error) {
          message = error.what();
        }
      }
      EXPECT_THAT(message, AllOf(HasSubstr("training diverged"), HasSubstr("loss scale is 1"),
                                 HasSubstr(layer), HasSubstr("weight has a NaN")))
          << c.name;
      EXPECT_TRUE(std::filesystem::exists(folder / "nonfinite_iter_0.pth"));
      break;
    }
  }
}

// F50 with batch norm, whose running statistics move in forward already.
TEST(MixedPrecision, AnOverflowLeavesWholeModelsAsTheyWere) {
  for (RealCase& c : real_cases()) {
    c.model->train();
    Sgd sgd(*c.model, {});
    SingleProcess alone;
    Precision precision(level(OptLevel::kO2));
    precision.apply(*c.model, sgd);
    bool overflows = false;
    sgd.parameters().front().second.register_hook([&](const Tensor& gradient) {
      return overflows ? torch::full_like(gradient, std::numeric_limits<float>::infinity())
                       : gradient;
    });
    train_step(*c.model, sgd, alone, c.batch, {.lr = 1e-4, .precision = &precision});
    const double scale = precision.scaler().scale();
    NamedTensors state = model_state(*c.model);
    for (const NamedTensors& more : {sgd.state(), sgd.masters()}) {
      state.insert(state.end(), more.begin(), more.end());
    }
    std::vector<Tensor> before;
    for (const auto& [name, tensor] : state) {
      before.push_back(tensor.clone());
    }
    overflows = true;
    EXPECT_FALSE(
        train_step(*c.model, sgd, alone, c.batch, {.lr = 1e-4, .precision = &precision}).updated());
    EXPECT_EQ(precision.scaler().scale(), scale / 2);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(torch::equal(state[i].second, before[i])) << c.name << ' ' << state[i].first;
    }
  }
}

// F48, F46: many steps in O2, all finite but for the overflows that halve the scale.
TEST(MixedPrecision, HundredStepsOfMaskRcnnInO2StayFinite) {
  for (RealCase& c : real_cases()) {
    if (!c.model->has_masks()) {
      continue;
    }
    c.model->train();
    Sgd sgd(*c.model, {});
    SingleProcess alone;
    Precision precision(level(OptLevel::kO2));
    precision.apply(*c.model, sgd);
    int skipped = 0;
    double first = 0, last = 0;
    for (int i = 0; i < 100; ++i) {
      const StepResult result =
          train_step(*c.model, sgd, alone, c.batch, {.lr = 5e-4, .precision = &precision});
      ASSERT_TRUE(std::isfinite(result.total)) << i << ": " << result.nonfinite;
      skipped += result.updated() ? 0 : 1;
      (i == 0 ? first : last) = result.total;
    }
    EXPECT_LT(skipped, 20);
    EXPECT_LT(last, first) << c.name;
    return;
  }
  GTEST_SKIP() << "no mask case with steps in DETFORGE_PARITY_DIR (default ../shared/parity)";
}

}  // namespace
}  // namespace detforge
