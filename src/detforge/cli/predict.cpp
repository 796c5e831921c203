#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/model_source.h"
#include "detforge/cli/threads.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/data/image_write.h"
#include "detforge/eval/postprocess.h"
#include "detforge/ops/paste_masks.h"
#include "detforge/structures/rle.h"
#include "detforge/vis/draw.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

/// Images as given; of folders everything that looks like an image by its name, sorted.
std::vector<fs::path> list_images(const std::vector<std::string>& inputs, std::int64_t limit) {
  static const std::set<std::string> kExtensions = {".jpg", ".jpeg", ".png", ".webp", ".bmp",
                                                    ".tif", ".tiff", ".ppm", ".pgm"};
  std::vector<fs::path> images;
  for (const fs::path input : inputs) {
    if (!fs::is_directory(input)) {
      images.push_back(input);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(input)) {
      std::string extension = entry.path().extension().string();
      std::transform(extension.begin(), extension.end(), extension.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (kExtensions.contains(extension)) {
        found.push_back(entry.path());
      }
    }
    std::sort(found.begin(), found.end());
    images.insert(images.end(), found.begin(), found.end());
  }
  DETFORGE_CHECK(!images.empty(), "there is no image to predict on",
                 "name image files, or a folder that holds some");
  if (limit > 0 && static_cast<std::int64_t>(images.size()) > limit) {
    images.resize(static_cast<std::size_t>(limit));
  }
  return images;
}

/// One image's detections as plain numbers, in pixels of the file.
struct Found {
  std::vector<Box> boxes;
  std::vector<std::int64_t> labels;
  std::vector<double> scores;
  std::vector<Rle> masks;  ///< empty if the model gives none

  std::vector<DrawnObject> drawn() const {
    std::vector<DrawnObject> objects;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      objects.push_back({.box = boxes[i],
                         .label = labels[i],
                         .score = scores[i],
                         .mask = masks.empty() ? RleView{} : masks[i]});
    }
    return objects;
  }
};

/// Pictures are named after their images: in the images' own folder they would replace them.
void refuse_own_folder(const std::vector<fs::path>& images, const fs::path& output) {
  for (const fs::path& image : images) {
    const fs::path folder = image.has_parent_path() ? image.parent_path() : fs::path(".");
    std::error_code error;
    if (fs::exists(output, error) && fs::equivalent(output, folder, error)) {
      throw Error("the output folder is the one that holds " + image.filename().string() +
                      ": pictures would replace images",
                  "choose another --output", Error::Kind::kUsage)
          .add_where(output.string());
    }
  }
}

class Predictor {
 public:
  Predictor(const LoadedModel& model, double score_threshold)
      : detector_(model.config.test.aug.enabled
                      ? with_test_time_augmentation(model.config, model.detector)
                      : model.detector),
        transforms_(model.config.test.aug.enabled ? no_transform_options()
                                                  : test_transform_options(model.config)),
        collate_(collate_options(model.config)),
        score_threshold_(score_threshold) {}

  /// Detections of at least the threshold.

  Found operator()(const Image& image, const std::string& path) const {
    Sample sample;
    sample.path = path;
    sample.image = image;
    sample.original_size = image.size();
    Rng rng(0, RngPurpose::kAugment);  // the test transforms draw nothing
    transforms_.apply(sample, rng);
    const torch::NoGradGuard no_grad;
    const Batch batch = collate({std::move(sample)}, collate_);
    const Detections detections = above_threshold(postprocess(
        detector_->predict(batch.images).front(), batch.images.content(0), image.size()));
    Found found = to_found(detections);
    if (detections.masks.defined()) {
      found.masks = paste_masks(detections.masks, detections.boxes, image.size());
    }
    return found;
  }

 private:
  Detections above_threshold(const Detections& all) const {
    const Tensor kept = (all.scores >= score_threshold_).nonzero().squeeze(1);
    return {.boxes = all.boxes.index_select(0, kept),
            .scores = all.scores.index_select(0, kept),
            .labels = all.labels.index_select(0, kept),
            .masks = all.masks.defined() ? all.masks.index_select(0, kept) : Tensor{}};
  }

  static Found to_found(const Detections& detections) {
    Found found;
    const auto boxes = detections.boxes.accessor<float, 2>();
    for (std::int64_t i = 0; i < detections.boxes.size(0); ++i) {
      found.boxes.push_back({boxes[i][0], boxes[i][1], boxes[i][2], boxes[i][3]});
      found.labels.push_back(detections.labels.accessor<std::int64_t, 1>()[i]);
      found.scores.push_back(detections.scores.accessor<float, 1>()[i]);
    }
    return found;
  }

  std::shared_ptr<Detector> detector_;
  TransformPipeline transforms_;
  CollateOptions collate_;
  double score_threshold_;
};

nlohmann::ordered_json to_json(const fs::path& image,
                               ImageSize size,
                               const Found& found,
                               const std::vector<std::string>& class_names) {
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.boxes.size(); ++i) {
    const Box& box = found.boxes[i];
    const auto label = static_cast<std::size_t>(found.labels[i]);
    objects.push_back(
        {{"label", found.labels[i]},
         {"name", label < class_names.size() ? class_names[label] : std::to_string(label)},
         {"score", found.scores[i]},
         {"bbox_xywh", {box.x1, box.y1, box.width(), box.height()}}});
    if (!found.masks.empty()) {
      objects.back()["segmentation"] = {{"size", {size.height, size.width}},
                                        {"counts", encode_rle_counts(found.masks[i].counts)}};
    }
  }
  return {{"file", image.string()},
          {"width", size.width},
          {"height", size.height},
          {"detections", objects}};
}

/// "a/x.jpg" and "b/x.png" must not overwrite each other's picture.
std::string picture_name(const fs::path& image, std::set<std::string>& used) {
  std::string name = image.stem().string();
  for (int i = 2; !used.insert(name).second; ++i) {
    name = fmt::format("{}_{}", image.stem().string(), i);
  }
  return name + ".jpg";
}

}  // namespace

int run_predict(const PredictArguments& arguments) {
  configure_threads(arguments.threads);
  const auto images = list_images(arguments.inputs, arguments.limit);
  refuse_own_folder(images, arguments.output);
  const LoadedModel model = load_model({.source = arguments.weights,
                                        .config = arguments.config,
                                        .overrides = arguments.overrides,
                                        .needs_data = false});
  const Predictor predictor(model, arguments.score_threshold);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::set<std::string> names;
  std::int64_t failed = 0;
  const Timer timer;
  for (const fs::path& path : images) {
    try {
      const Image image = read_image(path.string());
      const Found found = predictor(image, path.string());
      write_jpeg(fs::path(arguments.output) / picture_name(path, names),
                 draw_objects(image, found.drawn(), model.class_names));
      all.push_back(to_json(path, image.size(), found, model.class_names));
    } catch (const Error& error) {
      ++failed;  // one bad file must not cost the others
      log::error("{}", error.what());
    }
  }
  if (!arguments.json.empty()) {
    files::write_atomic(arguments.json, all.dump(2) + "\n");
  }
  fmt::print("{} images in {:.1f} s; pictures in {}{}\n",
             images.size() - static_cast<std::size_t>(failed), timer.elapsed_s(), arguments.output,
             arguments.json.empty() ? "" : ", detections in " + arguments.json);
  DETFORGE_CHECK(failed == 0,
                 fmt::format("{} of {} images could not be used", failed, images.size()),
                 "see the messages above");
  return 0;
}

}  // namespace detforge
