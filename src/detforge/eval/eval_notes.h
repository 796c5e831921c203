#pragma once

#include <string>
#include <vector>

#include "detforge/eval/grouping.h"

namespace detforge {

/// What makes the numbers of an evaluation mean something else than a reader would think: no
/// detections, nothing to judge, records left out, more objects in an image than max_dets lets
/// through, annotation id 0. One sentence each; empty if all is ordinary.
std::vector<std::string> eval_notes(const EvalInputs& inputs,
                                    const EvalGrouping& grouping,
                                    const CocoEvalResult& result);

}  // namespace detforge
