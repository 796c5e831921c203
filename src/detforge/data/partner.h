#pragma once

#include "detforge/data/dataset.h"
#include "detforge/data/transform_pipeline.h"

namespace detforge {

/// The other images of mosaic, mixup and copy-paste: any sample of the data set, all equally
/// likely, also the one that it is put together with. Takes one number of the generator. Borrows
/// the data set. Thread-safe.
TransformPipeline::Partner random_partner(const CocoDataset& dataset);

}  // namespace detforge
