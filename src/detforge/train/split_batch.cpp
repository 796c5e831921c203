#include "detforge/train/split_batch.h"

#include <algorithm>
#include <string>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// Elements [begin, end) of a list by image, which may be empty where nobody needs it.
template <typename T>
std::vector<T> range_of(const std::vector<T>& items, std::int64_t begin, std::int64_t end) {
  return items.empty() ? std::vector<T>()
                       : std::vector<T>(items.begin() + begin, items.begin() + end);
}

Batch range_of(const Batch& batch, std::int64_t begin, std::int64_t end) {
  const ImageBatch& images = batch.images;
  return {.images = {.images = images.images.narrow(0, begin, end - begin),
                     .sizes = range_of(images.sizes, begin, end),
                     .original_sizes = range_of(images.original_sizes, begin, end),
                     .image_ids = range_of(images.image_ids, begin, end),
                     .paths = range_of(images.paths, begin, end),
                     .rng_keys = range_of(images.rng_keys, begin, end),
                     .contents = range_of(images.contents, begin, end)},
          .targets = range_of(batch.targets, begin, end)};
}

}  // namespace

std::vector<Batch> split_batch(const Batch& batch, std::int64_t parts) {
  DETFORGE_CHECK(parts >= 1, "a batch cannot be cut into " + std::to_string(parts) + " parts",
                 "set SOLVER.ACCUMULATION_STEPS to 1 or more");
  const std::int64_t count = batch.images.count();
  const std::int64_t pieces = std::clamp<std::int64_t>(count, 1, parts);
  if (pieces == 1) {
    return {batch};
  }
  std::vector<Batch> result;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t end = begin + count / pieces + (i < count % pieces ? 1 : 0);
    result.push_back(range_of(batch, begin, end));
    begin = end;
  }
  return result;
}

}  // namespace detforge
