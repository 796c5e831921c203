#include "detforge/train/precision.h"

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

const char* name_of(OptLevel level) {
  constexpr const char* kNames[] = {"O0", "O1", "O2", "O3"};
  return kNames[static_cast<int>(level)];
}

}  // namespace

OptLevel opt_level_of(const std::string& name) {
  for (const OptLevel level : {OptLevel::kO0, OptLevel::kO1, OptLevel::kO2, OptLevel::kO3}) {
    if (name == name_of(level)) {
      return level;
    }
  }
  throw Error("there is no OPT_LEVEL " + name, "use O0, O1, O2 or O3", Error::Kind::kUsage);
}

bool has_half_weights(OptLevel level) {
  return level == OptLevel::kO2 || level == OptLevel::kO3;
}

PrecisionOptions precision_options(OptLevel level) {
  PrecisionOptions options{.level = level};
  options.keep_norm_fp32 = options.master_weights = level != OptLevel::kO3;
  if (level == OptLevel::kO1 || level == OptLevel::kO2) {
    options.loss_scale = dynamic_loss_scale();
  }
  return options;
}

Precision::Precision(PrecisionOptions options)
    : options_(options),
      scaler_(options.level == OptLevel::kO0 ? LossScaleOptions{} : options.loss_scale) {
  DETFORGE_CHECK(is_half_type(options.half_type),
                 fmt::format("mixed precision of {}", map_type_name(options.half_type)),
                 "use fp16 or bf16");
}

void Precision::apply(Detector& detector, Sgd& optimizer) const {
  if (!is_mixed()) {
    return;
  }
  detector.set_map_type(options_.half_type);
  if (has_half_weights(options_.level)) {
    optimizer.keep_in(options_.half_type, options_.master_weights, [this](const std::string& name) {
      return !options_.keep_norm_fp32 || !is_norm_parameter(name);
    });
  }
}

std::string Precision::description() const {
  if (!is_mixed()) {
    return "O0: everything f32";
  }
  const char* half = map_type_name(options_.half_type);
  std::string what = fmt::format("maps {}, weights f32", half);
  if (has_half_weights(options_.level)) {
    what =
        fmt::format("maps and weights {}, {} masters, norms {}", half,
                    options_.master_weights ? "f32" : "no", options_.keep_norm_fp32 ? "f32" : half);
  }
  return fmt::format("{}: {}, {} loss scale {}", name_of(options_.level), what,
                     scaler_.is_dynamic() ? "dynamic" : "static", scaler_.scale());
}

}  // namespace detforge
