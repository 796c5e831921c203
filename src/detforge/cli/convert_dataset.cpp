#include <filesystem>

#include <fmt/format.h>

#include "detforge/cli/commands.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/class_names.h"
#include "detforge/data/image_io.h"
#include "detforge/data/write_dataset.h"

namespace detforge {
namespace {

CheckPolicy policy_of(const std::vector<std::string>& words) {
  CheckPolicy policy;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw Error("--policy " + word + " is not PROBLEM=ACTION",
                  "for example --policy image_unreadable=drop", Error::Kind::kUsage);
    }
    policy.set(word.substr(0, equals), word.substr(equals + 1));
  }
  return policy;
}

std::vector<std::string> class_names(const std::vector<std::string>& words) {
  const bool is_file = words.size() == 1 && std::filesystem::is_regular_file(words[0]);
  return is_file ? read_names_file(words[0]) : words;
}

/// YOLO and VOC files are right for the images' true sizes only, and a COCO file may be wrong about
/// them: those of the images that are there are compared.
void check_sizes(const CocoStore& store) {
  std::vector<std::string> paths;
  std::vector<ImageSize> sizes;
  for (const CocoImage& image : store.images()) {
    const std::string path = store.image_path(image);
    if (std::filesystem::is_regular_file(path)) {
      paths.push_back(path);
      sizes.push_back(image.size);
    }
  }
  const std::vector<ImageProbe> probes = probe_images(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ImageSize is = probes[i].info.size, said = sizes[i];
    if (probes[i].problem.empty() && is != said) {
      throw Error(
          fmt::format("the annotation file says {} x {} pixels (height x width), the image "
                      "has {} x {}",
                      said.height, said.width, is.height, is.width),
          "correct width and height in the annotation file; of an image that its camera has "
          "turned they must be those after turning")
          .add_where(paths[i]);
    }
  }
}

WriteOptions::Images image_mode(const ConvertDatasetArguments& arguments) {
  if (arguments.copy_images) {
    return WriteOptions::Images::kCopy;
  }
  return arguments.link_images ? WriteOptions::Images::kLink : WriteOptions::Images::kLeave;
}

void print_summary(const ConvertDatasetArguments& arguments,
                   const CocoStore& store,
                   const WriteReport& written) {
  fmt::print("{}: {} images with {} objects\n", written.annotations.string(), written.images,
             written.objects);
  const auto note = [](std::int64_t count, const char* what) {
    if (count > 0) {
      fmt::print("  {} {}\n", count, what);
    }
  };
  note(written.other_classes, "objects of other classes were left out");
  note(written.crowds, "crowds were left out: YOLO labels cannot mark them");
  note(written.masks, arguments.to == "yolo"
                          ? "objects keep only the box of their mask (polygons: --masks)"
                          : "objects keep only the box of their mask: VOC has none here");
  if (arguments.copy_images || arguments.link_images) {
    return;
  }
  const std::string root = store.image_root().empty() ? "." : store.image_root();
  if (written.image_folder.empty()) {
    fmt::print("  file names are relative to {}\n", root);
  } else {
    fmt::print("  the images are still in {}; readers look for them in {} (--link-images)\n", root,
               written.image_folder.string());
  }
}

}  // namespace

int run_convert_dataset(const ConvertDatasetArguments& arguments) {
  const AnnotationFormat from = parse_format(arguments.from);
  const std::vector<std::string> classes = class_names(arguments.classes);
  CheckReport report(policy_of(arguments.policies));
  const auto store = load_annotations(
      from, arguments.source,
      {.image_root = arguments.images,
       .class_names = classes,
       .voc = {.ignore_difficult = !arguments.use_difficult, .one_based = !arguments.zero_based}},
      report);
  if (const std::string text = report.to_text(); !text.empty()) {
    fmt::print("{}\n", text);
  }
  if (!arguments.report.empty()) {
    files::write_atomic(arguments.report, report.to_json() + "\n");
  }
  if (arguments.strict && report.has_problems()) {
    throw Error("the data checks found problems, listed above",
                "correct them, or leave --strict out to have them repaired or dropped")
        .add_where(arguments.source);
  }
  if (from == AnnotationFormat::kCoco && arguments.to != "coco") {
    check_sizes(*store);
  }
  const WriteReport written = write_dataset(
      parse_format(arguments.to), *store,
      {.output = arguments.output,
       .split = arguments.split.empty() ? split_name(from, arguments.source) : arguments.split,
       .classes = classes,
       .images = image_mode(arguments),
       .masks = arguments.masks,
       .integer_boxes = arguments.integer_boxes,
       .replace = arguments.force,
       .description =
           fmt::format("converted by DetForge from {} ({})", arguments.source, arguments.from)});
  print_summary(arguments, *store, written);
  return 0;
}

}  // namespace detforge
