#pragma once

#include "detforge/structures/detections.h"
#include "detforge/structures/image.h"

namespace detforge {

/// Detections in pixels of the file from detections in pixels of the network input: boxes moved by
/// the picture's place, scaled by original / network size in each direction, clipped to the image,
/// boxes left without area dropped, together with their masks (which stay on their grid, as wide as
/// their box is now: ops/paste_masks.h).
///   content        where the network input shows the file's picture (ImageBatch::content()); never
///                  the batch's padding
///   original_size  size of the file's image
/// Order is kept; the result shares no storage with the input. D = 0 is fine.
/// Ref: Detectron2, modeling/postprocessing.py, detector_postprocess.
Detections postprocess(const Detections& detections,
                       const Window& content,
                       ImageSize original_size);

}  // namespace detforge
