#include "detforge/data/shapes.h"

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/data/image_write.h"
#include "detforge/data/shapes_scene.h"

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
  return {{"generation", kGeneration},
          {"train_images", options.train_images},
          {"val_images", options.val_images},
          {"height", options.size.height},
          {"width", options.size.width},
          {"max_objects", options.max_objects},
          {"seed", options.seed}};
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

Json annotation(const shapes::Shape& shape, std::int64_t id, std::int64_t image_id) {
  const auto rounded = [](double value) {
    return static_cast<double>(std::llround(value * 100)) / 100;
  };
  const Box box = shape.box();
  return {{"id", id},
          {"image_id", image_id},
          {"category_id", shape.label + 1},
          {"bbox", {box.x1, box.y1, rounded(box.width()), rounded(box.height())}},
          {"area", rounded(shape.area())},
          {"iscrowd", 0},
          {"segmentation", {shape.polygon}}};
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
    for (const shapes::Shape& shape : scene.shapes) {
      annotations.push_back(
          annotation(shape, static_cast<std::int64_t>(annotations.size()) + 1, i + 1));
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
