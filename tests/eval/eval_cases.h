#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "detforge/eval/coco_eval.h"

namespace detforge::test {

/// Ground truth of a COCO file, read with a plain JSON reader (not the one under test).
EvalInputs load_inputs(const std::filesystem::path& path);

/// What random_case() makes: few images and categories, coordinates on a grid (so that equal IoUs
/// happen), tied scores, crowds, areas on the borders of the ranges, images and categories without
/// objects.
struct RandomCase {
  EvalInputs inputs;
  std::vector<EvalDetection> detections;
};
RandomCase random_case(std::uint64_t seed);

/// Detections that are exactly the objects (crowds left out), all with different scores.
std::vector<EvalDetection> perfect_detections(const EvalInputs& inputs);

}  // namespace detforge::test
