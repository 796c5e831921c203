#include "detforge/cli/initial_weights.h"

#include <fmt/format.h>

#include "detforge/config/architecture.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/export/load_weights.h"
#include "detforge/export/weights_source.h"

namespace detforge {

void check_preprocessing(const Preprocessing& file, const Config& config) {
  if (preprocessing_fits(file,
                         {config.model.pixel_mean, config.model.pixel_std, config.input.format})) {
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

void refuse_download(const ModelConfig& model) {
  if (model.weights.find("://") == std::string::npos) {
    return;
  }
  const std::string scratch = is_rcnn(model)
                                  ? "MODEL.RESNETS.NORM GN MODEL.BACKBONE.FREEZE_AT 0"
                                  : "MODEL.DARKNET.NORM_EVAL false MODEL.DARKNET.FREEZE_AT 0";
  throw Error(
      "MODEL.WEIGHTS names a download, " + model.weights +
          ", and DetForge uses no network by itself",
      "download it and give --init FILE, or put it below --data, or train from scratch with "
      "MODEL.WEIGHTS '' " +
          scratch,
      Error::Kind::kUsage);
}

LoadReport load_initial_weights(Detector& detector, const Config& config) {
  const std::string& file = config.model.weights;
  if (file.empty()) {
    return {};
  }
  refuse_download(config.model);
  LoadReport report = load_weights(detector, file);
  check_preprocessing(report.preprocessing, config);
  log::info("weights from {} ({})\n{}", file, report.layout, report.table());
  return report;
}

}  // namespace detforge
