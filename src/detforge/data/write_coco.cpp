#include <iterator>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/write_formats.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

std::string segmentation_json(const Segmentation& mask) {
  if (!mask.rle.counts.empty()) {
    return fmt::format("{{\"size\":[{},{}],\"counts\":{}}}", mask.rle.size.height,
                       mask.rle.size.width, json_text(encode_rle_counts(mask.rle.counts)));
  }
  std::string text = "[";
  for (const std::vector<double>& polygon : mask.polygons) {
    text += fmt::format("{}[{}]", text.size() > 1 ? "," : "", fmt::join(polygon, ","));
  }
  return text + "]";
}

/// Objects of one image, a line each.
void append_annotations(DatasetWriter& writer, const CocoImage& image, std::string& text) {
  for (const CocoAnnotation& a : writer.store().annotations(image)) {
    const std::int64_t label = writer.label_of(a);
    if (label < 0) {
      writer.report.other_classes += a.usable ? 1 : 0;
      continue;
    }
    const Segmentation mask = writer.store().segmentation(a);
    text += fmt::format(
        "{}\n{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{}],\"area\":{},\"iscrowd\":{"
        "}{}"
        "}}",
        writer.report.objects++ == 0 ? "" : ",", a.id, a.image_id,
        writer.category_ids()[static_cast<std::size_t>(label)], fmt::join(a.box_xywh, ","), a.area,
        a.is_crowd ? 1 : 0, mask.empty() ? "" : ",\"segmentation\":" + segmentation_json(mask));
  }
}

std::string to_json(DatasetWriter& writer, const std::vector<fs::path>& names) {
  std::string text = fmt::format("{{\"info\":{{\"description\":{}}},\n\"categories\":[",
                                 json_text(writer.options().description));
  for (std::size_t label = 0; label < writer.class_names().size(); ++label) {
    text +=
        fmt::format("{}\n{{\"id\":{},\"name\":{},\"supercategory\":\"\"}}", label == 0 ? "" : ",",
                    writer.category_ids()[label], json_text(writer.class_names()[label]));
  }
  text += "],\n\"images\":[";
  const auto images = writer.store().images();
  for (std::size_t i = 0; i < images.size(); ++i) {
    text += fmt::format("{}\n{{\"id\":{},\"file_name\":{}", i == 0 ? "" : ",", images[i].id,
                        json_text(names[i].string()));
    if (images[i].size.height > 0) {
      text +=
          fmt::format(",\"height\":{},\"width\":{}", images[i].size.height, images[i].size.width);
    }
    text += "}";
  }
  text += "],\n\"annotations\":[";
  for (const CocoImage& image : images) {
    append_annotations(writer, image, text);
  }
  return text + "]}\n";
}

/// File names as they are, for images that stay where they are.
std::vector<fs::path> names_as_written(const CocoStore& store) {
  std::vector<fs::path> names;
  for (const CocoImage& image : store.images()) {
    names.emplace_back(store.file_name(image));
  }
  return names;
}

}  // namespace

void write_coco(DatasetWriter& writer) {
  const WriteOptions& options = writer.options();
  const bool is_file = options.output.extension() == ".json";
  const bool leave = options.images == WriteOptions::Images::kLeave;
  DETFORGE_CHECK(leave || !is_file, "images have no place beside a single JSON file",
                 "give a folder as the output, or leave the images where they are");
  const fs::path json =
      is_file ? options.output
              : options.output / "annotations" / ("instances_" + options.split + ".json");
  writer.require_free(json);
  const std::vector<fs::path> names =
      leave ? names_as_written(writer.store()) : writer.image_names(/*without_extension=*/false);
  const std::string text = to_json(writer, names);
  const auto images = writer.store().images();
  if (!leave) {
    writer.report.image_folder = options.output / options.split;
    files::write_folder(writer.report.image_folder, options.replace, [&](const fs::path& folder) {
      for (std::size_t i = 0; i < images.size(); ++i) {
        writer.put_image(images[i], folder / names[i], writer.report.image_folder / names[i]);
      }
    });
  }
  files::write_atomic(json, text);
  writer.report.images = static_cast<std::int64_t>(images.size());
  writer.report.annotations = json;
}

}  // namespace detforge
