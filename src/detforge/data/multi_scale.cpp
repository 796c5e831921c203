#include "detforge/data/multi_scale.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"

namespace detforge {

void check_multi_scale(const MultiScaleOptions& options) {
  DETFORGE_CHECK(!options.sizes.empty() &&
                     *std::min_element(options.sizes.begin(), options.sizes.end()) > 0 &&
                     options.every_batches >= 0,
                 fmt::format("multi-scale of sizes [{}], chosen every {} batches",
                             fmt::join(options.sizes, ", "), options.every_batches),
                 "give positive sizes, and 0 (each image) or more batches");
}

ImageSize multi_scale_size(const MultiScaleOptions& options, const BatchPlace& place, Rng& rng) {
  const auto choose = [&](Rng& generator) {
    const std::int64_t side = options.sizes[generator.below(options.sizes.size())];
    return ImageSize{side, side};
  };
  if (options.every_batches == 0) {
    return choose(rng);
  }
  Rng shared(place.seed, RngPurpose::kMultiScale,
             static_cast<std::uint64_t>(place.batch / options.every_batches));
  return choose(shared);
}

}  // namespace detforge
