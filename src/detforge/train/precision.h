#pragma once

#include <string>

#include "detforge/models/detector.h"
#include "detforge/train/loss_scaler.h"
#include "detforge/train/optimizer.h"

namespace detforge {

/// Apex's levels. What they mean here, where every op computes in f32 whatever it reads and writes
/// (ops/map_type.h): boxes, anchors, coders, softmax, losses and reductions are f32 in all of them.
enum class OptLevel {
  kO0,  ///< everything f32
  kO1,  ///< maps 16 bits; weights f32
  kO2,  ///< maps and weights 16 bits, weights as copies of f32 masters; norms f32
  kO3,  ///< maps and all weights 16 bits, no masters: for comparison only
};

/// "O0" to "O3". Throws Error for any other name.
OptLevel opt_level_of(const std::string& name);

struct PrecisionOptions {
  OptLevel level = OptLevel::kO0;
  at::ScalarType half_type = at::kHalf;  ///< or at::kBFloat16
  bool keep_norm_fp32 = true;            ///< of O2 and O3; the levels' own: true and false
  bool master_weights = true;            ///< of O2 and O3; the levels' own: true and false
  LossScaleOptions loss_scale = {};
};

/// True for O2 and O3.
bool has_half_weights(OptLevel level);

/// The options of a level as Apex has them, with f16 and, for O1 and O2, a dynamic loss scale.
PrecisionOptions precision_options(OptLevel level);

/// How one run computes and scales its loss: the one thing about precision that train_step sees.
class Precision {
 public:
  /// Throws Error if the half type is not f16 or bf16, or the loss scale is out of range.
  explicit Precision(PrecisionOptions options = {});

  /// Puts the detector's maps and the optimizer's parameters into their types. Call once, when the
  /// weights to train from are loaded.
  void apply(Detector& detector, Sgd& optimizer) const;

  bool is_mixed() const { return options_.level != OptLevel::kO0; }
  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }
  /// One line for people: "O2: maps and weights f16, f32 masters, norms f32, dynamic loss scale
  /// 65536".
  std::string description() const;

 private:
  PrecisionOptions options_;
  LossScaler scaler_;
};

}  // namespace detforge
