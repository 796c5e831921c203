#include "detforge/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/allocator.h"
#include "detforge/core/caching_allocator.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

constexpr std::int64_t kFpsWarmup = 10;
constexpr std::int64_t kVerboseSteps = 2;

/// d:hh:mm:ss as Python prints a timedelta.
std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) {
    return "n/a";
  }
  const auto total = static_cast<std::int64_t>(seconds);
  const std::string clock =
      fmt::format("{}:{:02}:{:02}", total / 3600 % 24, total / 60 % 60, total % 60);
  const std::int64_t days = total / 86400;
  return days == 0 ? clock : fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", clock);
}

/// Keeps the lines of steps before `start_iter`: a killed run may have logged steps that it now
/// does again. A torn line goes as well.
/// Returns the steps skipped until then.
std::int64_t drop_later_lines(const std::filesystem::path& path, std::int64_t start_iter) {
  if (!std::filesystem::exists(path)) {
    return 0;
  }
  std::int64_t skipped = 0;
  std::string kept, line;
  std::istringstream lines(files::read(path));
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("iteration", std::int64_t{0}) < start_iter) {
      kept += line + "\n";
      skipped = std::max(skipped, static_cast<std::int64_t>(json.value("skipped_steps", 0.0)));
    }
  }
  files::write_atomic(path, kept);
  return skipped;
}

}  // namespace

void FpsMeter::add_step(double seconds, std::int64_t images) {
  ++steps_;
  images_ = images;
  seconds_ = steps_ < kFpsWarmup ? 0 : seconds_ + seconds;
}

double FpsMeter::fps() const {
  return steps_ <= kFpsWarmup ? 0 : static_cast<double>(images_ * (steps_ - kFpsWarmup)) / seconds_;
}

double peak_rss_mib() {
  return static_cast<double>(peak_rss_bytes()) / (1 << 20);
}

void TrainingLog::Window::add(const std::string& name, double value) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == values.end()) {
    values.push_back({name, {value}});
  } else {
    found->second.push_back(value);
  }
}

/// As NumPy's: the mean of the two middle values of an even number.
double TrainingLog::Window::median(const std::string& name) const {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == values.end()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<double> sorted = found->second;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

TrainingLog::TrainingLog(TrainingLogOptions options) : options_(std::move(options)) {
  skipped_ = drop_later_lines(options_.folder / "metrics.jsonl", options_.start_iter);
  if (options_.tensorboard) {
    tensorboard_ = std::make_unique<TensorBoardWriter>(options_.folder, options_.start_iter);
  }
}

void TrainingLog::after_step(const StepReport& report) {
  add_to_window(report);
  if (steps_ <= kVerboseSteps) {
    log::debug(
        "iteration {}: step_time = {:.4f} s (data {:.4f}, forward {:.4f}, backward {:.4f}, "
        "optimizer {:.4f})",
        report.iteration, report.step_s, report.data_s, report.result.forward_s,
        report.result.backward_s, report.result.optimizer_s);
  }
  if (report.progress.iteration % options_.period == 0 || report.last) {
    write_period(report);
    window_ = {};
  }
  if (!report.last) {
    return;
  }
  if (fps_.fps() > 0) {
    log::info("FPS = {:.3f}", fps_.fps());
  } else {
    log::info("no FPS: it needs more than {} steps", kFpsWarmup);
  }
}

void TrainingLog::add_to_window(const StepReport& report) {
  ++steps_;
  fps_.add_step(report.step_s, report.result.images);
  window_.add("time", report.step_s);
  window_.add("data_time", report.data_s);
  if (!report.result.updated()) {
    ++skipped_;
    return;
  }
  loss_names_.clear();
  window_.add("total_loss", report.result.total);
  window_.add("grad_norm", report.result.grad_norm);
  if (report.result.reduction.bytes > 0) {
    window_.add("comm_time", report.result.reduction.communication_s);
    window_.add("comm_exposed", report.result.reduction.exposed_s);
  }
  for (const auto& [name, value] : report.result.losses) {
    loss_names_.push_back(name);
    window_.add(name, value);
  }
}

void TrainingLog::write_period(const StepReport& report) {
  const double time = window_.median("time");
  const double eta_s = time * static_cast<double>(options_.max_iter - report.progress.iteration);
  const double images_per_s = static_cast<double>(report.result.images) / time;
  std::vector<std::pair<std::string, double>> values = {
      {"lr", report.lr},
      {"eta_seconds", eta_s},
      {"images_per_s", images_per_s},
      {"max_mem", peak_rss_mib()},
      {"total_loss", window_.median("total_loss")},
      {"grad_norm", window_.median("grad_norm")},
      {"time", time},
      {"data_time", window_.median("data_time")}};
  for (const std::string& name : loss_names_) {
    values.emplace_back(name, window_.median(name));
  }
  if (options_.epoch_iters > 0) {
    values.emplace_back("epoch", epochs_done(report));
  }
  if (const std::int64_t tensors = tensor_memory().peak_live; tensors > 0) {
    values.emplace_back("max_tensor_mem", static_cast<double>(tensors) / (1 << 20));
  }
  if (report.result.reduction.bytes > 0) {
    values.emplace_back("comm_time", window_.median("comm_time"));
    values.emplace_back("comm_exposed", window_.median("comm_exposed"));
  }
  if (report.result.loss_scale != 1) {
    values.emplace_back("loss_scale", report.result.loss_scale);
  }
  if (skipped_ > 0) {
    values.emplace_back("skipped_steps", static_cast<double>(skipped_));
  }
  record(report.iteration, values);
  log::info("{}", console_line(report, eta_s, images_per_s));
}

double TrainingLog::epochs_done(const StepReport& report) const {
  return static_cast<double>(report.progress.iteration) / static_cast<double>(options_.epoch_iters);
}

std::string TrainingLog::console_line(const StepReport& report,
                                      double eta_s,
                                      double images_per_s) const {
  const auto number = [&](const std::string& name) {
    const double median = window_.median(name);
    return std::isnan(median) ? "-" : fmt::format("{:.4g}", median);
  };
  const std::string epoch =
      options_.epoch_iters > 0 ? fmt::format("  epoch: {:.2f}", epochs_done(report)) : "";
  std::string line = fmt::format("eta: {}{}  iter: {}  total_loss: {}", duration_text(eta_s), epoch,
                                 report.iteration, number("total_loss"));
  for (const std::string& name : loss_names_) {
    line += fmt::format("  {}: {}", name, number(name));
  }
  line += fmt::format(
      "  time: {:.4f}  data_time: {:.4f}  lr: {:.5g}  max_mem: {:.0f}M  {:.2f} img/s",
      window_.median("time"), window_.median("data_time"), report.lr, peak_rss_mib(), images_per_s);
  if (report.result.loss_scale != 1) {
    line += fmt::format("  loss_scale: {:.6g}", report.result.loss_scale);
  }
  return skipped_ == 0 ? line : line + fmt::format("  skipped: {}", skipped_);
}

void TrainingLog::record(std::int64_t iteration,
                         const std::vector<std::pair<std::string, double>>& values) {
  nlohmann::json line = {{"iteration", iteration}};
  for (const auto& [name, value] : values) {
    line[name] = std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
    if (tensorboard_ && std::isfinite(value)) {
      tensorboard_->add_scalar(name, value, iteration);
    }
  }
  try {
    files::append_line(options_.folder / "metrics.jsonl", line.dump());
    if (tensorboard_) {
      tensorboard_->flush();
    }
  } catch (const Error& error) {
    // A full disk must not end a long run because of a log line.
    log::error("METRICS NOT WRITTEN at iteration {}: {}", iteration, error.what());
  }
}

}  // namespace detforge
