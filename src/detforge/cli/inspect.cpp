#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/made_up_batch.h"
#include "detforge/cli/precision_modes.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/threads.h"
#include "detforge/core/allocator.h"
#include "detforge/distributed/single_process.h"
#include "detforge/models/output_watch.h"
#include "detforge/ops/conversion_log.h"
#include "detforge/ops/map_type.h"
#include "detforge/ops/work_meter.h"
#include "detforge/train/step.h"

namespace detforge {
namespace {

struct ParameterCount {
  std::int64_t all = 0, trained = 0;
};

/// "backbone.bottom_up.res2" of "backbone.bottom_up.res2.0.conv1.weight".
std::string module_of(const std::string& name) {
  constexpr int kDepth = 3;
  std::size_t end = 0;
  for (int i = 0; i < kDepth && end != std::string::npos; ++i) {
    end = name.find('.', end + (i > 0 ? 1 : 0));
  }
  const std::size_t last = name.rfind('.');
  return name.substr(0, end == std::string::npos ? last : std::min(end, last));
}

ParameterCount print_parameters(const Detector& detector) {
  std::vector<std::string> order;
  std::map<std::string, ParameterCount> counts;
  ParameterCount total;
  for (const auto& item : detector.named_parameters()) {
    const std::string module = module_of(item.key());
    if (!counts.contains(module)) {
      order.push_back(module);
    }
    const std::int64_t trained = item.value().requires_grad() ? item.value().numel() : 0;
    counts[module].all += item.value().numel();
    counts[module].trained += trained;
    total.all += item.value().numel();
    total.trained += trained;
  }
  fmt::print("{:<44} {:>12} {:>12}\n", "module", "parameters", "trained");
  for (const std::string& module : order) {
    fmt::print("{:<44} {:>12} {:>12}\n", module, counts[module].all, counts[module].trained);
  }
  fmt::print("{:<44} {:>12} {:>12}\n\n", "total", total.all, total.trained);
  return total;
}

double mib(double bytes) {
  return bytes / (1 << 20);
}

void print_mib(const std::string& name, double bytes, const std::string& note = {}) {
  fmt::print("  {:<28} {:>9.0f} MiB{}\n", name, mib(bytes), note);
}

/// What a training step does and keeps, and the most memory that this process has taken so far.
struct Trial {
  double forward_macs = 0, backward_macs = 0, kept_bytes = 0, peak_bytes = 0;
};

/// Two real steps: from the second on, momentum is there and the allocator has its blocks.
Trial train_two_steps(Detector& detector, const Config& config, const InspectArguments& arguments) {
  const auto samples =
      made_up_samples(arguments.size, arguments.batch, arguments.objects, class_count(config));
  detector.train();
  Sgd optimizer(detector, sgd_options(config.solver));
  Precision precision(precision_options(config));
  precision.apply(detector, optimizer);
  SingleProcess communicator;
  Trial trial;
  for (int step = 0; step < 2; ++step) {
    const WorkMeter meter;
    train_step(detector, optimizer, communicator, collate(samples, collate_options(config)),
               {.lr = 0, .precision = &precision});
    trial = {meter.forward_macs(), meter.backward_macs(), meter.kept_bytes(),
             static_cast<double>(peak_rss_bytes())};
  }
  return trial;
}

/// The types of each layer's weight and output, and the ops that have no code for 16 bits.
void print_precision(const Config& config, const InspectArguments& arguments) {
  const auto detector = build_detector(config);
  Sgd optimizer(*detector, sgd_options(config.solver));
  const Precision precision(precision_options(config));
  precision.apply(*detector, optimizer);
  detector->train();
  fmt::print("{}\nboxes, anchors, losses and reductions: f32; sums inside every op: f32\n\n",
             precision.description());
  std::map<const torch::nn::Module*, std::string> names;
  for (const auto& item : detector->named_modules("", false)) {
    names[item.value().get()] = item.key();
  }
  const Batch batch = collate(
      made_up_samples(arguments.size, arguments.batch, arguments.objects, class_count(config)),
      made_up_collate_options(collate_options(config)));
  fmt::print("{:<56} {:>8} {:>8}\n", "layer", "weight", "output");
  std::set<const torch::nn::Module*> seen;
  const ConversionLog conversions;
  {
    const OutputWatch watch([&](const torch::nn::Module& layer, const Tensor& output) {
      if (seen.insert(&layer).second) {
        const auto weight = layer.named_parameters().find("weight");
        fmt::print("{:<56} {:>8} {:>8}\n", names[&layer],
                   weight == nullptr ? "-" : map_type_name(weight->scalar_type()),
                   map_type_name(output.scalar_type()));
      }
    });
    detector->losses(batch.images, batch.targets);
  }
  fmt::print("\nops that computed on f32 copies of 16-bit maps: {}\n",
             conversions.calls_by_op().empty() ? "none" : "");
  for (const auto& [op, calls] : conversions.calls_by_op()) {
    fmt::print("  {} ({} calls)\n", op, calls);
  }
}

}  // namespace

int run_inspect(const InspectArguments& arguments) {
  if (arguments.memory) {
    print_predicted_memory(arguments);
    return 0;
  }
  const Config config = load_recipe(
      {.file = arguments.config, .overrides = arguments.overrides, .needs_data = false});
  configure_threads(0);
  if (arguments.precision) {
    print_precision(config, arguments);
    return 0;
  }
  const auto detector = build_detector(config);
  const ParameterCount parameters = print_parameters(*detector);
  const Trial trial = train_two_steps(*detector, config, arguments);

  constexpr double kFloat = 4;
  const double weights = kFloat * static_cast<double>(parameters.all);
  const double trained = kFloat * static_cast<double>(parameters.trained);
  const double parts = weights + 2 * trained + trial.kept_bytes;
  fmt::print("a training step on {} made-up image(s) of {}x{} with {} objects each\n",
             arguments.batch, arguments.size.height, arguments.size.width, arguments.objects);
  fmt::print("  {:<28} {:>9.1f} GFLOP (2 per multiply-add of convolutions and linear layers)\n",
             "forward", 2e-9 * trial.forward_macs);
  fmt::print("  {:<28} {:>9.1f} GFLOP\n", "backward", 2e-9 * trial.backward_macs);
  fmt::print("memory\n");
  print_mib("weights", weights);
  print_mib("gradients", trained);
  print_mib("momentum", trained);
  print_mib("activations kept", trial.kept_bytes);
  print_mib("program and work space", std::max(0.0, trial.peak_bytes - parts));
  const bool keeps_all = arguments.allocator == Allocator::kSystem;
  print_mib("peak of two steps", trial.peak_bytes,
            std::string(", measured; the loader's batches ") +
                (keeps_all ? "and, where image sizes vary, up to as much again " : "") +
                "come on top");
  return 0;
}

}  // namespace detforge
