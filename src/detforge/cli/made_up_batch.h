#pragma once

#include <cstdint>
#include <vector>

#include "detforge/cli/arguments.h"
#include "detforge/data/collate.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Plausible images for benchmarks: smooth shapes with noise, and `objects` boxes each (the peers
/// in benchmarks/peers use as many) with an octagon in each as its mask. The same for the same
/// arguments.
std::vector<Sample> made_up_samples(HeightWidth size,
                                    std::int64_t count,
                                    std::int64_t objects,
                                    std::int64_t num_classes);

}  // namespace detforge
