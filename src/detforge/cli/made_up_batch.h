#pragma once

#include <cstdint>
#include <vector>

#include "detforge/cli/arguments.h"
#include "detforge/data/collate.h"
#include "detforge/models/detector.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Plausible images for benchmarks: smooth shapes with noise, and `objects` boxes each (the peers
/// in benchmarks/peers use as many) with an octagon in each as its mask. The same for the same
/// arguments.
std::vector<Sample> made_up_samples(HeightWidth size,
                                    std::int64_t count,
                                    std::int64_t objects,
                                    std::int64_t num_classes);

/// How benchmarks collate them: as `recipe` says, but with inputs of about unit scale also where
/// the recipe leaves colours as they are (PIXEL_STD 1), for which random weights are not made:
/// their RPN would find a few large boxes, and the heads would work on fewer ROIs than in a real
/// step.
CollateOptions made_up_collate_options(CollateOptions recipe);

/// Random weights behind frozen norms, which then do nothing, double a ResNet's maps with every
/// block; those of a deep one leave the range of f16. This scales the last norm of each block as
/// trained networks have it.
void settle_frozen_norms(Detector& detector);

}  // namespace detforge
