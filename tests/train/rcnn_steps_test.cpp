// A few whole training steps of each Faster and Mask R-CNN case, as Detectron2 made them.
#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/distributed/single/single_process.h"
#include "detforge/train/lr_schedule.h"
#include "detforge/train/step.h"
#include "support/torch/rcnn_case.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

bool has_steps(const nlohmann::json& description) {
  return description.contains("steps") && test::is_rcnn_case(description);
}

LrSchedule schedule_of(const nlohmann::json& solver) {
  return LrSchedule({.base_lr = solver["SOLVER.BASE_LR"],
                     .max_iter = solver["SOLVER.MAX_ITER"],
                     .steps = solver["SOLVER.STEPS"],
                     .warmup_iters = solver["SOLVER.WARMUP_ITERS"],
                     .warmup_factor = solver["SOLVER.WARMUP_FACTOR"]});
}

TEST(TrainStepParity, StepsOfRcnnEqualDetectron2) {
  const auto cases = test::parity_cases(has_steps);
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& parity_case : cases) {
    SCOPED_TRACE(parity_case.folder.string());
    const nlohmann::json& steps = parity_case.description["steps"];
    const double spread =
        parity_case.description["numeric_spread"]["grads_max_abs_diff_over_max_abs"];
    const test::Npz inputs = test::read_npz(parity_case.folder / "inputs.npz");
    const test::Npz expected = test::read_npz(parity_case.folder / "steps.npz");
    const Batch batch{.images = test::rcnn_case_images(inputs),
                      .targets = test::rcnn_case_targets(inputs)};
    const auto model = test::rcnn_case_model(parity_case);
    const LrSchedule schedule = schedule_of(steps["solver_overrides"]);
    Sgd sgd(*model, {.momentum = steps["solver_overrides"]["SOLVER.MOMENTUM"],
                     .weight_decay = steps["solver_overrides"]["SOLVER.WEIGHT_DECAY"]});
    SingleProcess alone;
    std::map<std::string, Tensor> start;
    for (const auto& [name, tensor] : test::state_of(*model)) {
      start[name] = tensor.detach().clone();
    }
    model->train();
    const Tensor losses = test::to_tensor(expected.at("losses"));
    for (std::int64_t step = 0; step < losses.size(0); ++step) {
      EXPECT_NEAR(schedule.lr(step), expected.at("lr").to_double()[static_cast<std::size_t>(step)],
                  1e-9);
      const StepResult result = train_step(*model, sgd, alone, batch, {.lr = schedule.lr(step)});
      const std::map<std::string, double> by_name(result.losses.begin(), result.losses.end());
      for (std::size_t i = 0; i < steps["loss_names"].size(); ++i) {
        const double want = losses[step][static_cast<std::int64_t>(i)].item<double>();
        // 1e-4 relative is the goal for losses; later steps carry the differences of earlier ones:
        // as much more as the gradients of the reference's own two runs differ.
        const double limit = 1e-4 + (step > 0 ? spread : 0.0);
        EXPECT_NEAR(by_name.at(steps["loss_names"][i]), want, limit * want + 1e-7)
            << "step " << step << " " << steps["loss_names"][i];
      }
    }
    const auto state = test::state_of(*model);
    for (std::size_t i = 0; i < steps["state_names"].size(); ++i) {
      const std::string name = steps["state_names"][i];
      const double change = (state.at(name).detach() - start.at(name)).norm().item<double>();
      const double want = expected.at("delta_l2").to_double()[i];
      // 3e-3 relative is the goal for gradients (issue 2), whose sum the change is.
      EXPECT_NEAR(change, want, 3e-3 * want + 1e-7) << name;
      const double l2 = expected.at("final_l2").to_double()[i];
      EXPECT_NEAR(state.at(name).detach().norm().item<double>(), l2, 1e-5 * l2 + 1e-7) << name;
    }
  }
}

}  // namespace
}  // namespace detforge
