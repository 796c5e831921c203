#pragma once

#include <cstdint>
#include <vector>

#include "detforge/structures/batch.h"

namespace detforge {

/// Cuts a batch of N images into min(N, parts) consecutive ones whose sizes differ by at most one,
/// the larger first. Pixels and boxes share storage with `batch`; padding stays that of the whole
/// batch. A batch without images is one part. Throws Error unless parts >= 1.
std::vector<Batch> split_batch(const Batch& batch, std::int64_t parts);

}  // namespace detforge
