#pragma once

#include "detforge/models/darknet/darknet_cfg.h"

namespace detforge {

/// Fills in the shapes of layer `index`, and the stride of a [yolo], from the layers before it and
/// the size of the input. Throws Error (what and fix, without the place) if they do not fit.
void infer_darknet_shape(DarknetCfg& cfg, std::size_t index);

/// Checks what only the whole network shows: there is a [yolo], all have the same classes and
/// ignore_thresh, and every layer leads to one. Throws Error with the layer's place.
void check_darknet_outputs(const DarknetCfg& cfg);

/// The layers whose outputs layer `index` reads; none for a first layer, which reads the images.
std::vector<std::size_t> darknet_inputs(const DarknetCfg& cfg, std::size_t index);

}  // namespace detforge
