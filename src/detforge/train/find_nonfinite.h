#pragma once

#include <string>

#include "detforge/models/detector.h"
#include "detforge/structures/batch.h"

namespace detforge {

/// Computes the batch's losses once more, without gradients, and names the first layer whose output
/// is not finite, with what came in and what its weights are: "backbone.bottom_up.res3.0.conv1
/// gives inf (its weights are finite, up to 0.31; the layer before it gave values up to 6.1e+04)".
/// Empty if all outputs are finite. The detector must be in training mode; its buffers stay as they
/// are.
std::string first_nonfinite_output(Detector& detector, const Batch& batch);

}  // namespace detforge
