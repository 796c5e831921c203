#pragma once

#include <string>

#include "detforge/distributed/communicator.h"
#include "detforge/eval/inference.h"

namespace detforge {

/// The results as bytes, and back. Throws Error for bytes that are not a result's.
std::string to_bytes(const InferenceResult& result);
InferenceResult inference_result(const std::string& bytes);

/// The results of all ranks on rank 0, as if it had seen all their images, rank by rank; on the
/// others an empty result. Seconds are those of the slowest rank. Ranks may be of different speed:
/// Communicator::barrier() before it.
InferenceResult gather_results(Communicator& communicator, InferenceResult own);

}  // namespace detforge
