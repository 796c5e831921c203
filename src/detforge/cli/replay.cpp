#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/threads.h"
#include "detforge/distributed/single_process.h"
#include "detforge/train/find_nonfinite.h"
#include "detforge/train/model_state.h"
#include "detforge/train/replay_bundle.h"
#include "detforge/train/step.h"

namespace detforge {
namespace {

/// The last parameter of the model with a gradient that is not finite: where backward met it first.
std::string first_nonfinite_gradient(const Sgd& optimizer) {
  std::string found;
  for (const auto& [name, parameter] : optimizer.parameters()) {
    const Tensor& gradient = parameter.grad();
    if (gradient.defined() && !is_finite(gradient)) {
      found = name;
    }
  }
  return found;
}

void print_losses(const ReplayBundle& bundle, const StepResult& now) {
  fmt::print("{:<20} {:>14} {:>14}\n", "loss", "in the run", "now");
  for (std::size_t i = 0; i < now.losses.size(); ++i) {
    const auto& [name, value] = now.losses[i];
    const bool known = i < bundle.losses.size() && bundle.losses[i].first == name;
    fmt::print("{:<20} {:>14} {:>14.6g}\n", name,
               known ? fmt::format("{:.6g}", bundle.losses[i].second) : "-", value);
  }
}

}  // namespace

int run_replay(const ReplayArguments& arguments) {
  const ReplayBundle bundle = read_replay_bundle(arguments.bundle);
  const Config config = load_recipe({.file = arguments.bundle,
                                     .text = bundle.config,
                                     .overrides = arguments.overrides,
                                     .needs_data = false});
  configure_threads(arguments.threads);
  const auto detector = build_detector(config);
  load_model_state(*detector, bundle.model.item(arguments.bundle + " model"));
  detector->train();
  Sgd optimizer(*detector, sgd_options(config.solver));
  PrecisionOptions options = precision_options(config);
  const bool is_chosen =
      std::any_of(arguments.overrides.begin(), arguments.overrides.end(),
                  [](const std::string& word) { return word.starts_with("LOSS_SCALE_VALUE"); });
  if (!is_chosen) {
    options.loss_scale.value = bundle.loss_scale;
  }
  Precision precision(options);
  precision.apply(*detector, optimizer);
  fmt::print("step {} of {} image(s), {}\n", bundle.iteration, bundle.batch.images.count(),
             precision.description());

  SingleProcess communicator;
  const StepResult now = train_step(
      *detector, optimizer, communicator, bundle.batch,
      {.lr = 0, .accumulation_steps = config.solver.accumulation_steps, .precision = &precision});
  print_losses(bundle, now);
  fmt::print("in the run: {}\n", bundle.nonfinite);
  if (now.updated()) {
    fmt::print("now: everything is finite (gradient norm {:.4g})\n", now.grad_norm);
    return 0;
  }
  fmt::print("now: {}\n", now.nonfinite);
  const std::string layer = first_nonfinite_output(*detector, bundle.batch);
  if (!layer.empty()) {
    fmt::print("first layer whose output is not finite: {}\n", layer);
  } else if (const std::string name = first_nonfinite_gradient(optimizer); !name.empty()) {
    fmt::print("all outputs are finite; backward met the first gradient that is not at {}\n", name);
  }
  return 0;
}

}  // namespace detforge
