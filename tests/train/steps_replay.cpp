#include "train/steps_replay.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/distributed/single_process.h"
#include "detforge/train/step.h"
#include "support/torch/model_case.h"
#include "support/torch/tensors.h"

namespace detforge::test {
namespace {

using State = std::map<std::string, Tensor>;

State copy_of_state(const torch::nn::Module& model) {
  State copy;
  for (const auto& [name, tensor] : state_of(model)) {
    copy[name] = tensor.detach().clone();
  }
  return copy;
}

void expect_step(const StepResult& result,
                 const nlohmann::json& loss_names,
                 const Tensor& losses,
                 double limit) {
  const std::map<std::string, double> by_name(result.losses.begin(), result.losses.end());
  for (std::size_t i = 0; i < loss_names.size(); ++i) {
    const double want = losses[static_cast<std::int64_t>(i)].item<double>();
    EXPECT_NEAR(by_name.at(loss_names[i]), want, limit * want + 1e-7) << loss_names[i];
  }
}

void expect_final_state(const State& start,
                        const State& state,
                        const nlohmann::json& names,
                        const Npz& expected,
                        double limit) {
  const auto changes = expected.at("delta_l2").to_double();
  const auto norms = expected.at("final_l2").to_double();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i];
    const Tensor& end = state.at(name);
    const double change = (end - start.at(name)).norm().item<double>();
    EXPECT_NEAR(change, changes[i], limit * changes[i] + 1e-7) << name;
    EXPECT_NEAR(end.norm().item<double>(), norms[i], 1e-5 * norms[i] + limit * changes[i] + 1e-7)
        << name;
  }
}

}  // namespace

void expect_steps(const ParityCase& parity_case,
                  Detector& model,
                  const Batch& batch,
                  const SgdOptions& sgd_options,
                  const LrSchedule& schedule,
                  const StepsTolerance& tolerance) {
  const nlohmann::json& steps = parity_case.description.at("steps");
  const Npz expected = read_npz(parity_case.folder / "steps.npz");
  const Tensor losses = to_tensor(expected.at("losses"));
  Sgd sgd(model, sgd_options);
  SingleProcess alone;
  const State start = copy_of_state(model);
  model.train();
  for (std::int64_t step = 0; step < losses.size(0); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto row = static_cast<std::size_t>(step);
    EXPECT_NEAR(schedule.lr(step), expected.at("lr").to_double()[row], 1e-9);
    const StepResult result = train_step(model, sgd, alone, batch, {.lr = schedule.lr(step)});
    expect_step(result, steps.at("loss_names"), losses[step],
                step == 0 ? tolerance.loss : tolerance.later_loss);
    if (expected.count("grad_norm") == 1) {
      const double want = expected.at("grad_norm").to_double()[row];
      EXPECT_NEAR(result.grad_norm, want, tolerance.grad_norm * want);
    }
  }
  expect_final_state(start, copy_of_state(model), steps.at("state_names"), expected,
                     tolerance.change);
}

}  // namespace detforge::test
