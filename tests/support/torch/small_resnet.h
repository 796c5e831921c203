#pragma once

#include "detforge/models/backbones/resnet.h"

namespace detforge::test {

/// The smallest backbone there is, trained from scratch: for tests of whole detectors.
inline ResNetOptions small_resnet() {
  return {.depth = 18,
          .norm = NormType::kGn,
          .stem_out_channels = 32,
          .res2_out_channels = 64,
          .freeze_at = 0};
}

}  // namespace detforge::test
