#include "detforge/data/copy_paste.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "detforge/data/mask_transforms.h"
#include "detforge/data/polygon_clip.h"
#include "detforge/data/sample_geometry.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

/// Takes the pixels of `from` where the mask is set. All of one size.
void copy_pixels(const Image& from, RleView mask, Image& to) {
  std::vector<std::uint8_t> bitmap(static_cast<std::size_t>(to.height * to.width));
  decode_mask(mask, bitmap);
  for (std::size_t i = 0; i < bitmap.size(); ++i) {
    if (bitmap[i] != 0) {
      std::copy_n(from.bgr.data() + 3 * i, 3, to.bgr.data() + 3 * i);
    }
  }
}

/// Takes what is covered from the masks underneath.
void hide_(std::vector<Instance>& instances,
           const Rle& cover,
           double min_visible_frac,
           CopyPasteCounts& counts) {
  std::erase_if(instances, [&](Instance& instance) {
    if (instance.segmentation.empty()) {
      return false;
    }
    const Rle before = segmentation_mask(instance.segmentation, cover.size);
    Rle left = subtract_mask(before, cover);
    const std::int64_t pixels = rle_area(before.counts), visible = rle_area(left.counts);
    if (visible == pixels) {
      return false;  // nothing is covered: polygons stay polygons
    }
    const bool hidden = visible == 0 || static_cast<double>(visible) <
                                            min_visible_frac * static_cast<double>(pixels);
    ++(hidden ? counts.hidden : counts.covered);
    instance.box = rle_box(left.counts, left.size.height);
    instance.segmentation = {{}, std::move(left)};
    return hidden;
  });
}

}  // namespace

CopyPasteCounts paste_objects_(Sample& sample,
                               Sample other,
                               const CopyPasteOptions& options,
                               Rng& rng) {
  CopyPasteCounts counts;
  const ImageSize size = sample.image.size();
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  cut_sample_(other, {.left = 0, .top = 0, .size = size});
  std::vector<Rle> masks;
  std::vector<Instance> pasted;
  for (Instance& instance : other.instances) {
    // Drawn for every object, so that a choice does not depend on the masks of others.
    const bool taken = rng.uniform() < options.object_probability;
    if (!taken || instance.is_crowd || instance.segmentation.empty()) {
      continue;
    }
    Rle mask = segmentation_mask(instance.segmentation, size);
    if (rle_area(mask.counts) > 0) {
      if (instance.box.x2 > width || instance.box.y2 > height) {
        instance.box = visible_mask_box(instance.segmentation, size);
      }
      masks.push_back(std::move(mask));
      pasted.push_back(std::move(instance));
    }
  }
  if (masks.empty()) {
    return counts;
  }
  counts.pasted = static_cast<std::int64_t>(pasted.size());
  const Rle cover = merge_masks(std::vector<RleView>(masks.begin(), masks.end()));
  copy_pixels(other.image, cover, sample.image);
  hide_(sample.instances, cover, options.min_visible_frac, counts);
  std::move(pasted.begin(), pasted.end(), std::back_inserter(sample.instances));
  return counts;
}

}  // namespace detforge
