#include "detforge/data/partner.h"

#include <cstdint>

namespace detforge {

TransformPipeline::Partner random_partner(const CocoDataset& dataset) {
  return [&dataset](Rng& rng) {
    const std::uint64_t index = rng.below(static_cast<std::uint64_t>(dataset.size()));
    return dataset.get(static_cast<std::int64_t>(index));
  };
}

}  // namespace detforge
