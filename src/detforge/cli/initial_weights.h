#pragma once

#include "detforge/config/config.h"
#include "detforge/export/load_weights.h"
#include "detforge/models/detector.h"

namespace detforge {

/// Loads MODEL.WEIGHTS into the detector and logs one table of what was loaded, re-initialised,
/// missing and unexpected, which is returned. Does nothing if MODEL.WEIGHTS is empty. Throws Error
/// for files that do not fit, and for files whose stored preprocessing (PIXEL_MEAN, PIXEL_STD,
/// FORMAT) differs from the config's.
LoadReport load_initial_weights(Detector& detector, const Config& config);

/// Throws Error (usage) if MODEL.WEIGHTS names a download.
void refuse_download(const ModelConfig& model);

/// The last of these checks alone; values that the file does not say are taken to fit.
void check_preprocessing(const Preprocessing& file, const Config& config);

}  // namespace detforge
