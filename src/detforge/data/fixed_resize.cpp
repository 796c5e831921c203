#include "detforge/data/fixed_resize.h"

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {

FixedResize::FixedResize(ImageSize size, Interpolation interpolation)
    : size_(size), interpolation_(interpolation) {
  DETFORGE_CHECK(size.height > 0 && size.width > 0,
                 fmt::format("cannot resize to {} x {} pixels", size.height, size.width),
                 "give a positive size");
}

void FixedResize::apply(Sample& sample, Rng& /*rng*/) const {
  resize_sample_(sample, size_, interpolation_);
}

}  // namespace detforge
