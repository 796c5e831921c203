// The part of CocoDataset that opens image files.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/data/dataset.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

std::string size_text(ImageSize size) {
  return fmt::format("{} x {}", size.width, size.height);
}

/// The annotation's mask, checked against the picture: an RLE that fits only the file's size
/// (policy "fix" for sizes that differ) would be left wrong by every transform. One without a pixel
/// was reported as mask_invalid when the file was read: the object serves for its box.
Segmentation fitting_mask(const CocoStore& store, const CocoAnnotation& a, const Sample& sample) {
  Segmentation mask = store.segmentation(a);
  if (!mask.rle.counts.empty() && mask.rle.size != sample.original_size) {
    throw Error(fmt::format("the RLE's size is {} (width x height), the picture's {}",
                            size_text(mask.rle.size), size_text(sample.original_size)),
                "write the RLE for the size of the picture")
        .add_where(fmt::format("annotation {}, image {}, {}", a.id, sample.image_id, sample.path))
        .at(__FILE__, __LINE__);
  }
  if (rle_area(mask.rle.counts) == 0) {
    mask.rle = {};
  }
  return mask;
}

}  // namespace

Sample CocoDataset::get(std::int64_t index) const {
  for (std::int64_t tries = 0; tries < size(); ++tries) {
    if (std::optional<Sample> sample = get_or_skip((index + tries) % size())) {
      return std::move(*sample);
    }
  }
  throw Error("no image of the data set can be decoded", "check the image folder")
      .at(__FILE__, __LINE__);
}

std::optional<Sample> CocoDataset::get_or_skip(std::int64_t index, bool masks) const {
  Image pixels;
  try {
    pixels = decode(index);
  } catch (const Error& error) {
    if (options_.bad_image == CocoDatasetOptions::BadImage::kStop) {
      throw;
    }
    note_bad_image(index, error.what());
    return std::nullopt;
  }
  return make_sample(index, std::move(pixels), masks);
}

Image CocoDataset::decode(std::int64_t index) const {
  try {
    return read_image(path(index), options_.read);
  } catch (Error& error) {
    error.add_where(fmt::format("image {}", image_id(index)));
    throw;
  }
}

/// The decoded picture and its size in the JSON must agree, or the boxes are on the wrong place.
Image CocoDataset::matching(std::int64_t index, Image pixels) const {
  const ImageSize expected = image_size(index);
  if (expected.width == 0 || pixels.size() == expected) {
    return pixels;
  }
  const bool swapped = pixels.width == expected.height && pixels.height == expected.width;
  const CheckKind kind = swapped ? CheckKind::kImageSizeSwapped : CheckKind::kImageSizeMismatch;
  const bool fix = options_.policy.action(kind) == CheckAction::kFix;
  if (fix && !swapped) {
    return pixels;
  }
  if (fix) {
    ImageReadOptions unturned = options_.read;
    unturned.apply_orientation = false;
    Image again = read_image(path(index), unturned);
    if (again.size() == expected) {
      return again;
    }
  }
  throw Error(fmt::format("{}: the picture is {} (width x height{}), the annotations say {}{}",
                          check_name(kind), size_text(pixels.size()),
                          options_.read.apply_orientation ? ", EXIF turning applied" : "",
                          size_text(expected), swapped ? "; they match only when swapped" : ""),
              swapped ? "annotate pictures as viewers show them (EXIF turned), write height and "
                        "width in the right "
                        "order, or switch EXIF turning off for pictures annotated unturned"
                      : "was the picture resized after it was annotated, or is it another picture?")
      .add_where(fmt::format("image {}, {}", image_id(index), path(index)))
      .at(__FILE__, __LINE__);
}

Sample CocoDataset::make_sample(std::int64_t index, Image pixels, bool masks) const {
  const std::size_t file = items_[static_cast<std::size_t>(index)].file;
  const CocoImage& record = image(index);
  Sample sample;
  sample.image_id = record.id;
  sample.path = path(index);
  sample.image = matching(index, std::move(pixels));
  sample.original_size = sample.image.size();
  for (const CocoAnnotation& a : stores_[file]->annotations(record)) {
    const std::int64_t label = label_of(file, a);
    if (!a.usable || label < 0) {
      continue;
    }
    sample.instances.push_back({.box = clipped_box(a.box_xywh, sample.original_size),
                                .label = label,
                                .annotation_id = a.id,
                                .area = a.area,
                                .is_crowd = a.is_crowd,
                                .segmentation = masks && options_.keep_segmentation
                                                    ? fitting_mask(*stores_[file], a, sample)
                                                    : Segmentation{}});
  }
  return sample;
}

void CocoDataset::note_bad_image(std::int64_t index, const std::string& reason) const {
  std::size_t count = 0;
  {
    const std::lock_guard lock(bad_mutex_);
    if (!bad_.insert(index).second) {
      return;
    }
    count = bad_.size();
  }
  log::warn("Skipped an image that cannot be decoded ({} so far, the run stops above {}): {}",
            count, options_.max_bad_images, reason);
  DETFORGE_CHECK(static_cast<std::int64_t>(count) <= options_.max_bad_images,
                 fmt::format("{} images cannot be decoded, more than the {} allowed; the last: {}",
                             count, options_.max_bad_images, reason),
                 "repair or remove these files, or raise max_bad_images");
}

std::int64_t CocoDataset::bad_images() const {
  const std::lock_guard lock(bad_mutex_);
  return static_cast<std::int64_t>(bad_.size());
}

}  // namespace detforge
