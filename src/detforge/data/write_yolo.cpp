#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/class_names.h"
#include "detforge/data/polygon_clip.h"
#include "detforge/data/write_formats.h"
#include "detforge/data/yolo_source.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

constexpr int kDigits = 10;  // of a fraction: 5e-11 of 10^5 pixels are 5e-6

double signed_area(const std::vector<double>& xy) {
  double twice = 0;
  for (std::size_t i = 0, n = xy.size(); i < n; i += 2) {
    const std::size_t next = (i + 2) % n;
    twice += xy[i] * xy[next + 1] - xy[next] * xy[i + 1];
  }
  return twice / 2;
}

/// One outline for several parts: each part is walked round in the same direction and left where it
/// was entered, and the way back to the first is the way there, so that the lines between parts
/// have no area.
std::vector<double> joined(std::vector<std::vector<double>> parts) {
  std::vector<double> out;
  for (std::vector<double>& part : parts) {
    if (signed_area(part) < 0) {
      for (std::size_t i = 0, j = part.size() - 2; i < j; i += 2, j -= 2) {
        std::swap_ranges(part.begin() + static_cast<std::ptrdiff_t>(i),
                         part.begin() + static_cast<std::ptrdiff_t>(i + 2),
                         part.begin() + static_cast<std::ptrdiff_t>(j));
      }
    }
    out.insert(out.end(), part.begin(), part.end());
    if (parts.size() > 1) {
      out.insert(out.end(), part.begin(), part.begin() + 2);
    }
  }
  for (std::size_t i = parts.size() - 1; i-- > 1;) {
    out.insert(out.end(), parts[i].begin(), parts[i].begin() + 2);
  }
  return out;
}

std::string polygon_row(std::int64_t label, const std::vector<double>& xy, ImageSize size) {
  std::string row = std::to_string(label);
  for (std::size_t i = 0; i < xy.size(); ++i) {
    const auto side = static_cast<double>(i % 2 == 0 ? size.width : size.height);
    row += " " + decimal(std::clamp(xy[i] / side, 0.0, 1.0), kDigits);
  }
  return row + "\n";
}

std::string box_row(std::int64_t label, const Box& box, ImageSize size) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  return fmt::format("{} {} {} {} {}\n", label, decimal((box.x1 + box.x2) / 2 / width, kDigits),
                     decimal((box.y1 + box.y2) / 2 / height, kDigits),
                     decimal(box.width() / width, kDigits),
                     decimal(box.height() / height, kDigits));
}

/// The parts inside the image.
std::vector<std::vector<double>> clipped_parts(const std::vector<std::vector<double>>& parts,
                                               ImageSize size) {
  const Box window{0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
  std::vector<std::vector<double>> clipped;
  for (const std::vector<double>& part : parts) {
    clipped.push_back(clip_polygon(part, window));
  }
  std::erase_if(clipped, [](const std::vector<double>& part) { return part.empty(); });
  return clipped;
}

std::string label_text(DatasetWriter& writer, const CocoImage& image) {
  const ImageSize size = writer.size_of(image);
  std::string text;
  for (const CocoAnnotation& a : writer.store().annotations(image)) {
    const std::int64_t label = writer.label_of(a);
    if (label < 0 || a.is_crowd) {
      writer.report.other_classes += a.usable && label < 0 ? 1 : 0;
      writer.report.crowds += label >= 0 ? 1 : 0;
      continue;
    }
    const Segmentation mask = writer.store().segmentation(a);
    const auto parts = clipped_parts(mask.polygons, size);
    const bool as_polygon = writer.options().masks && !parts.empty();
    writer.report.masks += mask.empty() || as_polygon ? 0 : 1;
    ++writer.report.objects;
    text += as_polygon ? polygon_row(label, joined(parts), size)
                       : box_row(label, clipped_box(a.box_xywh, size), size);
  }
  return text;
}

/// The image sets that a data.yaml of the same classes has already.
std::map<std::string, std::vector<std::string>> splits_there(const DatasetWriter& writer,
                                                             const fs::path& file) {
  if (!fs::exists(file)) {
    return {};
  }
  const DataYaml yaml = read_data_yaml(file);
  if (!yaml.root.empty() && yaml.root != ".") {
    throw Error("the folder's data.yaml is about another folder: path is " + yaml.root,
                "choose another output folder")
        .add_where(file.string())
        .at(__FILE__, __LINE__);
  }
  if (yaml.names == writer.class_names()) {
    return yaml.splits;
  }
  if (!writer.options().replace) {
    throw Error(
        fmt::format("the folder holds a dataset of other classes: {}", fmt::join(yaml.names, ", ")),
        "choose the same classes in the same order (--classes), or another output folder")
        .add_where(file.string())
        .at(__FILE__, __LINE__);
  }
  return {};
}

/// Whether there are label files that this image set does not replace.
bool has_other_sets(const fs::path& labels, const std::string& split) {
  if (!fs::is_directory(labels)) {
    return false;
  }
  const auto entries = fs::directory_iterator(labels);
  return std::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return entry.path().filename() != split;
  });
}

/// Label files mean classes by number: the names of those that stay must not change.
void refuse_other_names(const DatasetWriter& writer, const fs::path& file) {
  const WriteOptions& options = writer.options();
  if (!fs::exists(file) || read_names_file(file) == writer.class_names() ||
      (options.replace && !has_other_sets(options.output / "labels", options.split))) {
    return;
  }
  throw Error("the folder holds label files of other classes",
              "choose the same classes in the same order (--classes), or another output folder")
      .add_where(file.string())
      .at(__FILE__, __LINE__);
}

void write_data_yaml(const DatasetWriter& writer,
                     const fs::path& file,
                     std::map<std::string, std::vector<std::string>> splits) {
  const std::string& split = writer.options().split;
  splits[split] = {split + ".txt"};  // the list: the folder may hold more
  std::string text = "# Paths are relative to this file.\n";
  for (const auto& [name, entries] : splits) {
    std::vector<std::string> texts;
    std::transform(entries.begin(), entries.end(), std::back_inserter(texts), json_text);
    text += entries.size() == 1 ? fmt::format("{}: {}\n", name, texts[0])
                                : fmt::format("{}: [{}]\n", name, fmt::join(texts, ", "));
  }
  text += fmt::format("nc: {}\nnames:\n", writer.class_names().size());
  std::string names;
  for (std::size_t label = 0; label < writer.class_names().size(); ++label) {
    text += fmt::format("  {}: {}\n", label, json_text(writer.class_names()[label]));
    names += writer.class_names()[label] + "\n";
  }
  files::write_atomic(file, text);
  files::write_atomic(file.parent_path() / "obj.names", names);
}

}  // namespace

void write_yolo(DatasetWriter& writer) {
  const WriteOptions& options = writer.options();
  const fs::path list = options.output / (options.split + ".txt");
  const fs::path yaml = options.output / "data.yaml";
  writer.require_free(list);
  const auto splits = splits_there(writer, yaml);
  refuse_other_names(writer, options.output / "obj.names");
  const std::vector<fs::path> names = writer.image_names(/*without_extension=*/true);
  const auto images = writer.store().images();
  const fs::path below_images = fs::path("images") / options.split;
  std::string lines;
  files::write_folder(options.output, options.replace, [&](const fs::path& folder) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      const fs::path image = below_images / names[i];
      files::write_plain(folder / label_candidates(image).front(), label_text(writer, images[i]));
      writer.put_image(images[i], folder / image, options.output / image);
      lines += fmt::format("./{}\n", (below_images / names[i]).string());
    }
  });
  write_data_yaml(writer, yaml, splits);
  files::write_atomic(list, lines);
  writer.report.images = static_cast<std::int64_t>(images.size());
  // Not the list: a names file of another tool beside it would come before data.yaml.
  writer.report.annotations = yaml.string() + ":" + options.split;
  writer.report.image_folder = options.output / below_images;
}

}  // namespace detforge
