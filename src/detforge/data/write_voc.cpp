#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/text_file.h"
#include "detforge/data/write_formats.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

constexpr int kDigits = 6;

void add_text(pugi::xml_node parent, const char* name, const std::string& text) {
  parent.append_child(name).text().set(text.c_str());
}

void add_object(DatasetWriter& writer,
                pugi::xml_node root,
                const CocoAnnotation& a,
                const std::string& name,
                ImageSize size) {
  Box box = clipped_box(a.box_xywh, size);
  if (writer.options().integer_boxes) {
    box = {std::round(box.x1), std::round(box.y1), std::round(box.x2), std::round(box.y2)};
    box.x1 = std::min(box.x1, static_cast<double>(size.width) - 1);
    box.y1 = std::min(box.y1, static_cast<double>(size.height) - 1);
    box.x2 = std::max(box.x2, box.x1 + 1);  // at least a pixel
    box.y2 = std::max(box.y2, box.y1 + 1);
  }
  pugi::xml_node object = root.append_child("object");
  add_text(object, "name", name);
  add_text(object, "pose", "Unspecified");
  add_text(object, "truncated", "0");
  add_text(object, "difficult", a.is_crowd ? "1" : "0");
  pugi::xml_node corners = object.append_child("bndbox");
  add_text(corners, "xmin", decimal(box.x1 + 1, kDigits));
  add_text(corners, "ymin", decimal(box.y1 + 1, kDigits));
  add_text(corners, "xmax", decimal(box.x2, kDigits));
  add_text(corners, "ymax", decimal(box.y2, kDigits));
}

std::string annotation_xml(DatasetWriter& writer, const CocoImage& image, const fs::path& name) {
  const ImageSize size = writer.size_of(image);
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("annotation");
  add_text(root, "folder", "JPEGImages");
  add_text(root, "filename", name.filename().string());
  pugi::xml_node size_node = root.append_child("size");
  add_text(size_node, "width", std::to_string(size.width));
  add_text(size_node, "height", std::to_string(size.height));
  add_text(size_node, "depth", "3");
  add_text(root, "segmented", "0");
  for (const CocoAnnotation& a : writer.store().annotations(image)) {
    const std::int64_t label = writer.label_of(a);
    if (label < 0) {
      writer.report.other_classes += a.usable ? 1 : 0;
      continue;
    }
    ++writer.report.objects;
    writer.report.masks += a.part_count > 0 || a.rle >= 0 ? 1 : 0;
    add_object(writer, root, a, writer.class_names()[static_cast<std::size_t>(label)], size);
  }
  std::ostringstream text;
  document.save(text, "  ", pugi::format_default | pugi::format_no_declaration);
  return text.str();
}

/// All image sets share the folders Annotations and JPEGImages, so an image of one must not take
/// the place of another's, whether or not files may be replaced.
void require_own_ids(const std::set<std::string>& ids, const fs::path& list) {
  std::error_code ignored;  // a folder that is not there has no other sets
  for (const auto& entry : fs::directory_iterator(list.parent_path(), ignored)) {
    if (entry.path() == list || entry.path().extension() != ".txt") {
      continue;
    }
    const std::string text = files::read(entry.path());
    for (const std::string_view line : lines_of(text)) {
      if (ids.contains(std::string(line))) {
        throw Error(fmt::format("the image set {} has an image {} already",
                                entry.path().stem().string(), line),
                    "choose another output folder, or rename the images: VOC keeps the images of "
                    "all sets together")
            .add_where(entry.path().string())
            .at(__FILE__, __LINE__);
      }
    }
  }
}

}  // namespace

void write_voc(DatasetWriter& writer) {
  const WriteOptions& options = writer.options();
  const fs::path list = options.output / "ImageSets" / "Main" / (options.split + ".txt");
  writer.require_free(list);
  const std::vector<fs::path> names = writer.image_names(/*without_extension=*/true);
  const auto images = writer.store().images();
  std::vector<std::string> ids;
  for (const fs::path& name : names) {
    ids.push_back(fs::path(name).replace_extension().string());
  }
  require_own_ids({ids.begin(), ids.end()}, list);
  files::write_folder(options.output, options.replace, [&](const fs::path& folder) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      files::write_plain(folder / "Annotations" / (ids[i] + ".xml"),
                         annotation_xml(writer, images[i], names[i]));
      writer.put_image(images[i], folder / "JPEGImages" / names[i],
                       options.output / "JPEGImages" / names[i]);
    }
  });
  files::write_atomic(list, fmt::format("{}\n", fmt::join(ids, "\n")));
  writer.report.images = static_cast<std::int64_t>(images.size());
  writer.report.annotations = list;
  writer.report.image_folder = options.output / "JPEGImages";
}

}  // namespace detforge
