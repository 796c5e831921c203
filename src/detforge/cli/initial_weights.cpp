#include "detforge/cli/initial_weights.h"

#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/export/load_weights.h"

namespace detforge {
namespace {

bool differ(const std::vector<double>& file, const Numbers& config) {
  if (file.empty()) {
    return false;  // the file does not say
  }
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (i >= config.size() || std::abs(file[i] - config[i]) > 1e-3) {
      return true;
    }
  }
  return false;
}

}  // namespace

void check_preprocessing(const Preprocessing& file, const Config& config) {
  const bool format_differs =
      !file.pixel_format.empty() && file.pixel_format != config.input.format;
  if (!format_differs && !differ(file.pixel_mean, config.model.pixel_mean) &&
      !differ(file.pixel_std, config.model.pixel_std)) {
    return;
  }
  throw Error(
      fmt::format(
          "the weights were trained on {} images with mean [{}] and std [{}]; the config says {}, "
          "[{}] and [{}]",
          file.pixel_format, fmt::join(file.pixel_mean, ", "), fmt::join(file.pixel_std, ", "),
          config.input.format, fmt::join(config.model.pixel_mean, ", "),
          fmt::join(config.model.pixel_std, ", ")),
      "set INPUT.FORMAT, MODEL.PIXEL_MEAN and MODEL.PIXEL_STD to the weights' values",
      Error::Kind::kUsage);
}

LoadReport load_initial_weights(Detector& detector, const Config& config) {
  const std::string& file = config.model.weights;
  if (file.empty()) {
    return {};
  }
  if (file.find("://") != std::string::npos) {
    throw Error(
        "MODEL.WEIGHTS names a download, " + file + ", and DetForge uses no network by itself",
        "download it and give --init FILE, or put it below --data, or train from scratch with "
        "MODEL.WEIGHTS '' "
        "MODEL.RESNETS.NORM GN MODEL.BACKBONE.FREEZE_AT 0",
        Error::Kind::kUsage);
  }
  LoadReport report = load_weights(detector, file);
  check_preprocessing(report.preprocessing, config);
  log::info("weights from {} ({})\n{}", file, report.layout, report.table());
  return report;
}

}  // namespace detforge
