#include "detforge/data/shapes.h"

#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/data/image_write.h"
#include "detforge/data/mask_transforms.h"
#include "detforge/data/shapes_scene.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

using Json = nlohmann::ordered_json;

/// Raised when a change of the drawing code makes other pictures of the same options.
constexpr int kGeneration = 1;
constexpr std::int64_t kSmallestSide = 32;

struct Split {
  std::string name;
  std::uint64_t stream;  ///< train and val never share a picture
  std::int64_t images;
};

Json describe(const ShapesOptions& options) {
  Json description = {{"generation", kGeneration},
                      {"train_images", options.train_images},
                      {"val_images", options.val_images},
                      {"height", options.size.height},
                      {"width", options.size.width},
                      {"max_objects", options.max_objects},
                      {"seed", options.seed}};
  if (options.rle) {  // not written otherwise: folders made before there was a choice stay valid
    description["rle"] = true;
  }
  return description;
}

void check(const ShapesOptions& options) {
  DETFORGE_CHECK(options.train_images > 0 && options.val_images > 0 && options.max_objects > 0,
                 fmt::format("{} training images, {} validation images, at most {} objects",
                             options.train_images, options.val_images, options.max_objects),
                 "all three must be positive");
  DETFORGE_CHECK(
      options.size.height >= kSmallestSide && options.size.width >= kSmallestSide,
      fmt::format("pictures of {}x{} (height x width)", options.size.height, options.size.width),
      fmt::format("choose sides of at least {} pixels", kSmallestSide));
}

/// Whether the folder holds this dataset, complete. Throws Error if it holds anything else.
bool is_complete(const ShapesOptions& options) {
  const auto stamp_path = options.output / "shapes.json";
  if (!std::filesystem::exists(stamp_path)) {
    const bool foreign =
        std::filesystem::exists(options.output) && !std::filesystem::is_empty(options.output);
    DETFORGE_CHECK(!foreign,
                   options.output.string() + " holds files that make-shapes has not written",
                   "choose another output folder");
    return false;
  }
  Json stamp = Json::parse(files::read(stamp_path), nullptr, false);
  const bool complete = !stamp.is_discarded() && stamp.value("complete", false);
  if (!stamp.is_discarded()) {
    stamp.erase("complete");
  }
  DETFORGE_CHECK(stamp == describe(options),
                 options.output.string() + " holds shapes made with other options",
                 "choose another output folder, or remove this one");
  return complete;
}

void write_stamp(const ShapesOptions& options, bool complete) {
  Json stamp = describe(options);
  stamp["complete"] = complete;
  files::write_atomic(options.output / "shapes.json", stamp.dump(2) + "\n");
}

/// Box, area and polygon of the whole shape.
Json whole_outline(const shapes::Shape& shape) {
  const auto rounded = [](double value) {
    return static_cast<double>(std::llround(value * 100)) / 100;
  };
  const Box box = shape.box();
  return {{"bbox", {box.x1, box.y1, rounded(box.width()), rounded(box.height())}},
          {"area", rounded(shape.area())},
          {"iscrowd", 0},
          {"segmentation", {shape.polygon}}};
}

/// Box, area and RLE of what the shapes above leave of shape k.
Json visible_pixels(const shapes::Scene& scene, std::size_t k) {
  Rle mask = polygon_mask(scene.shapes[k].polygon, scene.size);
  for (std::size_t above = k + 1; above < scene.shapes.size(); ++above) {
    mask = subtract_mask(mask, polygon_mask(scene.shapes[above].polygon, scene.size));
  }
  const Box box = rle_box(mask.counts, mask.size.height);
  return {{"bbox", {box.x1, box.y1, box.width(), box.height()}},
          {"area", rle_area(mask.counts)},
          {"iscrowd", 0},
          {"segmentation",
           {{"size", {mask.size.height, mask.size.width}},
            {"counts", encode_rle_counts(mask.counts)}}}};
}

/// Pictures first, then the annotation file that refers to them. Returns the number of objects.
std::int64_t write_split(const ShapesOptions& options, const Split& split) {
  Json images = Json::array(), annotations = Json::array(), categories = Json::array();
  for (std::size_t label = 0; label < shapes::kClassNames.size(); ++label) {
    categories.push_back(
        {{"id", label + 1}, {"name", shapes::kClassNames[label]}, {"supercategory", "shape"}});
  }
  for (std::int64_t i = 0; i < split.images; ++i) {
    Rng rng(options.seed, RngPurpose::kShapes, split.stream, static_cast<std::uint64_t>(i));
    const shapes::Scene scene = shapes::make_scene(options.size, options.max_objects, rng);
    const std::string name = fmt::format("{:06}.jpg", i + 1);
    write_jpeg(options.output / split.name / name, shapes::draw_scene(scene, rng));
    images.push_back({{"id", i + 1},
                      {"file_name", name},
                      {"height", options.size.height},
                      {"width", options.size.width}});
    for (std::size_t k = 0; k < scene.shapes.size(); ++k) {
      Json annotation = {{"id", annotations.size() + 1},
                         {"image_id", i + 1},
                         {"category_id", scene.shapes[k].label + 1}};
      annotation.update(options.rle ? visible_pixels(scene, k) : whole_outline(scene.shapes[k]));
      annotations.push_back(std::move(annotation));
    }
  }
  const auto objects = static_cast<std::int64_t>(annotations.size());
  const Json file = {
      {"info", {{"description", "DetForge shapes"}, {"version", std::to_string(kGeneration)}}},
      {"images", std::move(images)},
      {"annotations", std::move(annotations)},
      {"categories", std::move(categories)}};
  files::write_atomic(options.output / "annotations" / ("instances_" + split.name + ".json"),
                      file.dump() + "\n");
  return objects;
}

}  // namespace

ShapesReport make_shapes(const ShapesOptions& options) {
  check(options);
  ShapesReport report{.images = options.train_images + options.val_images};
  if (is_complete(options)) {
    report.already_there = true;
    log::info("{} holds this dataset already", options.output.string());
    return report;
  }
  write_stamp(options, false);
  for (const Split& split :
       {Split{"train", 0, options.train_images}, Split{"val", 1, options.val_images}}) {
    report.objects += write_split(options, split);
  }
  write_stamp(options, true);
  return report;
}

}  // namespace detforge
