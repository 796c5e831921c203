#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/made_up_batch.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/threads.h"
#include "detforge/core/allocator.h"
#include "detforge/ops/work_meter.h"

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

}  // namespace

int run_inspect(const InspectArguments& arguments) {
  const Config config = load_recipe(
      {.file = arguments.config, .overrides = arguments.overrides, .needs_data = false});
  configure_threads(0);
  const auto detector = build_detector(config);
  const ParameterCount parameters = print_parameters(*detector);

  constexpr std::int64_t kObjects = 8;
  const Batch batch =
      collate(made_up_samples(arguments.size, 1, kObjects, config.model.roi_heads.num_classes),
              collate_options(config));
  detector->train();
  const WorkMeter meter;
  const LossMap losses = detector->losses(batch.images, batch.targets);
  constexpr double kFloat = 4;
  const double weights = kFloat * static_cast<double>(parameters.all);
  const double trained = kFloat * static_cast<double>(parameters.trained);
  const double sum = weights + 2 * trained + meter.kept_bytes();

  fmt::print("one image of {}x{} in training (convolutions and linear layers)\n",
             arguments.size.height, arguments.size.width);
  fmt::print("  {:<28} {:>9.1f} GFLOP (2 per multiply-add)\n", "forward",
             2e-9 * meter.forward_macs());
  fmt::print("  {:<28} {:>9.1f} GFLOP\n", "backward", 2e-9 * meter.backward_macs());
  fmt::print("estimated memory\n");
  fmt::print("  {:<28} {:>9.0f} MiB\n", "weights", mib(weights));
  fmt::print("  {:<28} {:>9.0f} MiB\n", "gradients", mib(trained));
  fmt::print("  {:<28} {:>9.0f} MiB\n", "momentum", mib(trained));
  fmt::print("  {:<28} {:>9.0f} MiB per image\n", "activations kept", mib(meter.kept_bytes()));
  fmt::print("  {:<28} {:>9.0f} MiB, plus work space of the convolutions (not estimated)\n",
             "sum, one image", mib(sum));
  return 0;
}

}  // namespace detforge
