// A few whole training steps of each model, as the reference made them.
#include <gtest/gtest.h>

#include "support/torch/rcnn_case.h"
#include "support/torch/yolo_case.h"
#include "train/steps_replay.h"

namespace detforge {
namespace {

using test::ParityCase;

std::vector<ParityCase> cases_with_steps(bool (*is_model)(const nlohmann::json&)) {
  std::vector<ParityCase> cases = test::parity_cases(is_model);
  std::erase_if(cases, [](const ParityCase& c) { return !c.description.contains("steps"); });
  return cases;
}

TEST(TrainStepParity, StepsOfRcnnEqualDetectron2) {
  const auto cases = cases_with_steps(test::is_rcnn_case);
  ASSERT_FALSE(cases.empty());
  for (const ParityCase& parity_case : cases) {
    SCOPED_TRACE(parity_case.folder.string());
    const nlohmann::json& solver = parity_case.description["steps"]["solver_overrides"];
    const test::Npz inputs = test::read_npz(parity_case.folder / "inputs.npz");
    const Batch batch{.images = test::rcnn_case_images(inputs),
                      .targets = test::case_targets(inputs)};
    const LrSchedule schedule({.base_lr = solver["SOLVER.BASE_LR"],
                               .max_iter = solver["SOLVER.MAX_ITER"],
                               .steps = solver["SOLVER.STEPS"],
                               .warmup_iters = solver["SOLVER.WARMUP_ITERS"],
                               .warmup_factor = solver["SOLVER.WARMUP_FACTOR"]});
    // As much more as the gradients of the reference's own two runs differ.
    const double spread =
        parity_case.description["numeric_spread"]["grads_max_abs_diff_over_max_abs"];
    test::expect_steps(
        parity_case, *test::rcnn_case_model(parity_case), batch,
        {.momentum = solver["SOLVER.MOMENTUM"], .weight_decay = solver["SOLVER.WEIGHT_DECAY"]},
        schedule, {.later_loss = 1e-4 + spread});
  }
}

TEST(TrainStepParity, StepsOfYoloV3EqualMmdetection) {
  const auto cases = cases_with_steps(test::is_yolo_case);
  if (cases.empty()) {
    GTEST_SKIP() << "no YOLOv3 case in DETFORGE_PARITY_DIR (default ../shared/parity)";
  }
  for (const ParityCase& parity_case : cases) {
    SCOPED_TRACE(parity_case.folder.string());
    const nlohmann::json& steps = parity_case.description["steps"];
    const nlohmann::json& sgd = steps["sgd"];
    const Batch batch{
        .images = test::yolo_case_images(parity_case),
        .targets = test::case_targets(test::read_npz(parity_case.folder / "inputs.npz"))};
    // mmengine's LinearLR until iteration 4 reaches its end in step 3.
    ASSERT_EQ(steps["warmup"], "LinearLR start_factor 0.1 from step 0 to 4");
    const LrSchedule schedule({.base_lr = sgd["lr"],
                               .max_iter = 100,
                               .steps = {},
                               .warmup_iters = 3,
                               .warmup_factor = 0.1});
    const double weight_decay = sgd["weight_decay"];
    // Three times what the reference's own two runs differ by, where that is
    // more than the goal.
    test::expect_steps(
        parity_case, *test::yolo_case_model(parity_case), batch,
        {.momentum = sgd["momentum"],
         .weight_decay = weight_decay,
         .weight_decay_norm = weight_decay,
         .clip = {.type = GradientClipOptions::Type::kFullModel,
                  .value = sgd["clip_grad_max_norm"]}},
        schedule,
        {.later_loss = 1e-4 + 3 * steps["loss_rel_spread"].get<double>(),
         .grad_norm = std::max(3e-3, 3 * steps["grad_norm_rel_spread"].get<double>()),
         .change = std::max(3e-3, 3 * steps["delta_l2_rel_spread"][0].get<double>())});
  }
}

}  // namespace
}  // namespace detforge
