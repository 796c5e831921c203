#include "detforge/cli/pictures.h"

#include <algorithm>

#include "detforge/core/rng.h"
#include "detforge/data/image_write.h"
#include "detforge/data/sampler.h"
#include "detforge/vis/draw.h"
#include "detforge/vis/grid.h"

namespace detforge {

void write_training_pictures(const CocoDataset& dataset,
                             const TransformPipeline& transforms,
                             const Config& config,
                             const std::filesystem::path& folder) {
  constexpr std::int64_t kPictures = 6;
  const auto seed = static_cast<std::uint64_t>(config.seed);
  const auto order = training_order(dataset.size(), seed, 0);
  std::vector<Image> pictures;
  for (std::int64_t i = 0; i < std::min(kPictures, dataset.size()); ++i) {
    Sample sample = dataset.get(order[static_cast<std::size_t>(i)]);
    Rng rng(seed, RngPurpose::kAugment, 0, static_cast<std::uint64_t>(i));  // as the loader keys it
    transforms.apply(sample, rng);
    pictures.push_back(draw_ground_truth(sample.image, sample.instances, dataset.class_names()));
  }
  write_jpeg(folder / "train_batch.jpg", grid(pictures));
}

}  // namespace detforge
