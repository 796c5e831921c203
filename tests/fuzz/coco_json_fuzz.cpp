// An annotation file of any bytes: read, checked, reported and looked at, as training does it,
// under a policy that refuses as little as possible so that the code behind the checks is reached.

#include "detforge/data/coco_store.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "fuzz/memory_file.h"

namespace detforge::fuzz {
namespace {

CheckPolicy lenient_policy() {
  CheckPolicy policy;
  for (std::size_t i = 0; i < kCheckKinds; ++i) {
    const auto kind = static_cast<CheckKind>(i);
    if (!accepts([&] { policy.set(kind, CheckAction::kFix); })) {
      accepts([&] { policy.set(kind, CheckAction::kDrop); });
    }
  }
  return policy;
}

/// Everything that a data set may ask of an annotation that it was told to use.
void use(const CocoStore& store, const CocoImage& image, const CocoAnnotation& annotation) {
  constexpr std::int64_t kMostPixels = 1 << 16;
  require(annotation.category >= 0 &&
              annotation.category < static_cast<std::int32_t>(store.categories().size()),
          "an annotation has a category");
  const Segmentation mask = store.segmentation(annotation);
  const bool known = image.size.height > 0 && image.size.width > 0;
  if (annotation.usable && known) {
    const Box box = clipped_box(annotation.box_xywh, image.size);
    require(box.width() >= 0 && box.height() >= 0, "the box of a usable annotation is a box");
    require(box.x1 >= 0 && box.x2 <= static_cast<double>(image.size.width), "and in its image");
    if (image.size.height <= kMostPixels && image.size.width <= kMostPixels &&
        image.size.height * image.size.width <= kMostPixels) {
      require(accepts([&] { segmentation_mask(mask, image.size); }), "and its mask can be drawn");
    }
  }
}

void use(const CocoStore& store) {
  for (const CocoImage& image : store.images()) {
    require(!store.file_name(image).empty(), "an image has a file name");
    require(store.find_image(image.id) == &image, "an image is found by its id");
    for (const CocoAnnotation& annotation : store.annotations(image)) {
      require(annotation.image_id == image.id, "annotations stand with their image");
      use(store, image, annotation);
    }
  }
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  static const CheckPolicy kPolicy = lenient_policy();
  const MemoryFile file(data, size);
  CheckReport report(kPolicy);
  accepts([&] { use(*load_coco(file.path(), {.keep_segmentation = size % 4 != 0}, report)); });
  report.to_text();
  report.to_json();
  return 0;
}
