#pragma once

#include "detforge/data/dataset.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// The second image of copy-paste: any sample of the data set, all equally likely, also the one
/// that it is pasted on. Takes one number of the generator. Borrows the data set. Thread-safe.
TransformPipeline::Partner random_partner(const CocoDataset& dataset);

}  // namespace detforge
