#include <algorithm>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/cli/build.h"
#include "detforge/cli/diagnosis.h"
#include "detforge/cli/median.h"
#include "detforge/cli/recipe.h"
#include "detforge/core/files.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

/// The lines of metrics.jsonl that training wrote (those of evaluations have no "time"); none if
/// the run has logged nothing yet.
std::vector<nlohmann::json> training_lines(const fs::path& run) {
  std::vector<nlohmann::json> lines;
  if (!fs::exists(run / "metrics.jsonl")) {
    return lines;
  }
  std::istringstream text(files::read(run / "metrics.jsonl"));
  std::string line;
  while (std::getline(text, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("time")) {
      lines.push_back(json);
    }
  }
  return lines;
}

double number(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number() ? found->get<double>() : 0.0;
}

double median_of(const std::vector<nlohmann::json>& lines, const char* name) {
  std::vector<double> values;
  for (const nlohmann::json& line : lines) {
    values.push_back(number(line, name));
  }
  return median(std::move(values));
}

void examine_precision(const Config& config, const nlohmann::json& last, Diagnosis& out) {
  const PrecisionOptions options = precision_options(config);
  const Precision precision(options);
  out.fact("precision", precision.description());
  const double scale = number(last, "loss_scale"), skipped = number(last, "skipped_steps");
  const double steps = number(last, "iteration") + 1;
  if (precision.is_mixed()) {
    out.fact("loss scale at the end", fmt::format("{:.6g}", scale == 0 ? 1.0 : scale));
    if (options.loss_scale.dynamic && scale <= options.loss_scale.floor) {
      out.warn(
          "the dynamic loss scale is at its floor: gradients overflow for another reason than the "
          "scale. Look at them with `detforge replay`, or set HALF_TYPE bf16");
    }
  } else if (number(last, "max_mem") > 2048) {
    out.warn(
        "AMP 0: with AMP 1 OPT_LEVEL O2 the activations take half the memory, at the same speed "
        "on CPUs (`detforge inspect CONFIG --memory` tells how much that is)");
  }
  out.fact("skipped steps", fmt::format("{:.0f} of {:.0f}", skipped, steps));
  if (skipped > 20 && skipped > 0.01 * steps) {
    out.warn(
        fmt::format("{:.1f} % of the steps were skipped: lower SOLVER.BASE_LR or "
                    "LOSS_SCALE_VALUE, or lengthen SOLVER.WARMUP_ITERS",
                    100 * skipped / steps));
  }
}

void examine_speed(const Config& config, const std::vector<nlohmann::json>& lines, Diagnosis& out) {
  const double time = median_of(lines, "time"), data = median_of(lines, "data_time");
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t workers = config.dataloader.num_workers;
  out.fact("speed",
           fmt::format("{:.2f} images/s, {:.4f} s a step", median_of(lines, "images_per_s"), time));
  out.fact("waiting for data", fmt::format("{:.1f} % of a step", 100 * data / time));
  out.fact("threads", fmt::format("{} loader threads, {} cores here", workers, cores));
  if (data > 0.05 * time) {
    out.warn(
        fmt::format("steps wait for data: raise DATALOADER.NUM_WORKERS ({} now) or "
                    "DATALOADER.PREFETCH, or put the images on a faster disk "
                    "(`detforge bench data` measures the loader alone)",
                    workers));
  } else if (workers > 2 * cores) {
    out.warn(
        fmt::format("{} loader threads on {} cores take time from training without need: "
                    "DATALOADER.NUM_WORKERS {} is enough",
                    workers, cores, cores));
  }
}

void examine_batch(const Config& config, const nlohmann::json& last, Diagnosis& out) {
  const std::int64_t batch = config.solver.ims_per_batch, parts = config.solver.accumulation_steps;
  out.fact("images a step",
           parts > 1 ? fmt::format("{}, in {} parts", batch, parts) : std::to_string(batch));
  out.fact("peak memory", fmt::format("{:.0f} MiB", number(last, "max_mem")));
  const bool has_batch_norm =
      config.model.resnets.norm == "BN" || config.model.meta_architecture != "GeneralizedRCNN";
  if (has_batch_norm && batch / std::max<std::int64_t>(1, parts) < 4) {
    out.warn(
        fmt::format("batch norm over {} image(s) is noisy: use more images, GN, or frozen "
                    "norms of pretrained weights",
                    batch / std::max<std::int64_t>(1, parts)));
  }
}

void examine_end(const Config& config,
                 const fs::path& run,
                 const std::vector<nlohmann::json>& lines,
                 Diagnosis& out) {
  const std::int64_t done =
      lines.empty() ? 0 : static_cast<std::int64_t>(number(lines.back(), "iteration")) + 1;
  out.fact("steps", fmt::format("{} of {} logged", done, config.solver.max_iter));
  if (done < config.solver.max_iter) {
    out.warn(fmt::format("the run is not at its end: detforge train --resume {}", run.string()));
  }
  for (const auto& entry : fs::directory_iterator(run)) {
    if (entry.path().filename().string().starts_with("nonfinite_iter_")) {
      out.warn(fmt::format("a step was not finite: detforge replay {}", entry.path().string()));
    }
  }
}

}  // namespace

void examine_run(const fs::path& run, Diagnosis& out) {
  const Config config = load_recipe({.file = run.string(), .needs_data = false});
  const std::vector<nlohmann::json> lines = training_lines(run);
  examine_end(config, run, lines, out);
  if (lines.empty()) {
    return;
  }
  examine_precision(config, lines.back(), out);
  examine_speed(config, lines, out);
  examine_batch(config, lines.back(), out);
}

}  // namespace detforge
