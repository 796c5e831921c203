#include "detforge/cli/pictures.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "detforge/core/rng.h"
#include "detforge/data/image_write.h"
#include "detforge/data/partner.h"
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
    transforms.apply(sample, rng, random_partner(dataset), {.seed = seed});
    pictures.push_back(draw_ground_truth(sample.image, sample.instances, dataset.class_names()));
  }
  write_jpeg(folder / "train_batch.jpg", grid(pictures));
}

void write_evaluation_pictures(const CocoDataset& dataset,
                               const InferenceResult& found,
                               const EvaluationPictures& options) {
  const std::int64_t count = std::min(options.count, dataset.size());
  std::map<std::int64_t, std::int64_t> label_of_id;
  for (std::size_t k = 0; k < dataset.category_ids().size(); ++k) {
    if (const auto id = dataset.category_ids()[k]) {
      label_of_id[*id] = static_cast<std::int64_t>(k);
    }
  }
  std::map<std::int64_t, std::vector<DrawnObject>> objects;  // by image id
  for (std::int64_t i = 0; i < count; ++i) {
    objects[dataset.image_id(i * dataset.size() / count)] = {};
  }
  for (std::size_t i = 0; i < found.detections.size(); ++i) {
    const EvalDetection& detection = found.detections[i];
    const auto image = objects.find(detection.image_id);
    const auto label = label_of_id.find(detection.category_id);
    if (image == objects.end() || label == label_of_id.end()) {
      continue;
    }
    image->second.push_back({.box = {detection.x, detection.y, detection.x + detection.width,
                                     detection.y + detection.height},
                             .label = label->second,
                             .score = detection.score,
                             .mask = found.masks.size() > 0 ? found.masks[i] : RleView{}});
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (const auto sample = dataset.get_or_skip(i * dataset.size() / count)) {
      write_jpeg(
          options.folder / fmt::format("{}.jpg", sample->image_id),
          draw_comparison(sample->image, objects[sample->image_id], sample->instances,
                          dataset.class_names(), {.score_threshold = options.score_threshold}));
    }
  }
}

}  // namespace detforge
