// COCO evaluation of boxes and of masks at the size of val2017: 5,000 images of 480 x 640, 80
// categories, 7 objects (polygons; 1 % crowds as RLE) and 100 detections per image.
//   coco_eval_bench [IMAGES] [THREADS]          makes the files in a temporary folder, judges them,
//                                               boxes and masks each in a process of its own
//   coco_eval_bench make FOLDER [IMAGES]        only makes gt.json, boxes.json and masks.json
//   coco_eval_bench boxes|masks FOLDER [THREADS]  only judges
// Prints wall seconds for loading (annotations, drawing of their masks, results), and for the
// evaluation (grouping; matching and accumulating summed over threads), and the peak memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/allocator.h"
#include "detforge/core/files.h"
#include "detforge/core/rng.h"
#include "detforge/core/timer.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/coco_ground_truth.h"
#include "detforge/eval/coco_report.h"
#include "detforge/eval/mask_eval.h"
#include "detforge/eval/results_json.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"

namespace {

using namespace detforge;

constexpr std::int64_t kCategories = 80, kObjectsPerImage = 7, kDetectionsPerImage = 100;
constexpr ImageSize kSize = {480, 640};
constexpr int kPoints = 28, kWaves = 4;

/// A lump: an ellipse whose radius varies with the angle.
struct Blob {
  double x = 0, y = 0, width = 0, height = 0;  // centre and extent of the ellipse
  double strength[kWaves] = {}, phase[kWaves] = {};

  std::vector<double> polygon() const {
    std::vector<double> xy;
    for (int i = 0; i < kPoints; ++i) {
      const double angle = 2 * std::numbers::pi * i / kPoints;
      double radius = 0.5;
      for (int k = 0; k < kWaves; ++k) {
        radius += strength[k] * std::sin((k + 2) * angle + phase[k]);
      }
      const auto place = [&](double at, double limit) {
        return std::round(std::clamp(at, 0.0, limit) * 100) / 100;  // two decimals, as in COCO
      };
      xy.push_back(place(x + width * radius * std::cos(angle), 640));
      xy.push_back(place(y + height * radius * std::sin(angle), 480));
    }
    return xy;
  }
};

/// Between `low` and `high`, small ones more often.
double log_uniform(Rng& rng, double low, double high) {
  return low * std::pow(high / low, rng.uniform());
}

Blob make_blob(Rng& rng) {
  Blob blob{.width = log_uniform(rng, 10, 250), .height = log_uniform(rng, 10, 250)};
  blob.x = rng.uniform(blob.width / 2, 640 - blob.width / 2);
  blob.y = rng.uniform(blob.height / 2, 480 - blob.height / 2);
  for (int k = 0; k < kWaves; ++k) {
    blob.strength[k] = rng.uniform(0, 0.08);
    blob.phase[k] = rng.uniform(0, 2 * std::numbers::pi);
  }
  return blob;
}

/// Near `object`: shifted, stretched, and with an outline of its own.
Blob disturbed(Rng& rng, Blob blob) {
  blob.x += blob.width * rng.uniform(-0.15, 0.15);
  blob.y += blob.height * rng.uniform(-0.15, 0.15);
  blob.width *= rng.uniform(0.8, 1.2);
  blob.height *= rng.uniform(0.8, 1.2);
  for (double& strength : blob.strength) {
    strength += rng.uniform(-0.03, 0.03);
  }
  return blob;
}

struct Object {
  Blob blob;
  std::int64_t category = 1;
};

/// A third of the objects are of one category, as persons are in COCO.
Object make_object(Rng& rng) {
  return {make_blob(rng),
          rng.uniform() < 0.3 ? 1 : 1 + static_cast<std::int64_t>(rng.below(kCategories))};
}

std::string annotation_text(const Object& object,
                            std::int64_t id,
                            std::int64_t image,
                            bool is_crowd) {
  const std::vector<double> xy = object.blob.polygon();
  const Rle mask = polygon_mask(xy, kSize);
  const Box box = rle_box(mask.counts, kSize.height);
  const std::string segmentation =
      is_crowd ? fmt::format("{{\"size\":[{},{}],\"counts\":[{}]}}", kSize.height, kSize.width,
                             fmt::join(mask.counts, ","))
               : fmt::format("[[{}]]", fmt::join(xy, ","));
  return fmt::format(
      "{{\"id\":{},\"image_id\":{},\"category_id\":{},\"iscrowd\":{},\"area\":{},\"bbox\":[{},{},"
      "{},{}],\"segmentation\":{}}}",
      id, image, object.category, is_crowd ? 1 : 0, rle_area(mask.counts), box.x1, box.y1,
      box.width(), box.height(), segmentation);
}

/// Half of the detections have the category of the object that they are near, half any.
void add_detections(Rng& rng,
                    const std::vector<Object>& objects,
                    std::int64_t image,
                    std::vector<EvalDetection>& detections,
                    RleList& masks) {
  for (std::int64_t i = 0; i < kDetectionsPerImage; ++i) {
    const Object& object = objects[rng.below(objects.size())];
    const Rle mask = polygon_mask(disturbed(rng, object.blob).polygon(), kSize);
    const Box box = rle_box(mask.counts, kSize.height);
    detections.push_back(
        {.image_id = image,
         .category_id = rng.uniform() < 0.5 ? object.category
                                            : 1 + static_cast<std::int64_t>(rng.below(kCategories)),
         .x = box.x1 + rng.uniform(-0.5, 0.5),
         .y = box.y1 + rng.uniform(-0.5, 0.5),
         .width = box.width() + rng.uniform(0, 1),
         .height = box.height() + rng.uniform(0, 1),
         .score = static_cast<double>(static_cast<float>(rng.uniform()))});
    masks.push_back(mask);
  }
}

void make(const std::filesystem::path& folder, std::int64_t images) {
  std::string image_text, annotations;
  std::vector<EvalDetection> detections;
  RleList masks;
  std::int64_t id = 0;
  for (std::int64_t i = 0; i < images; ++i) {
    Rng rng(1, RngPurpose::kTest, static_cast<std::uint64_t>(i));
    const std::int64_t image = i * 7 + 139;
    image_text += fmt::format("{}{{\"id\":{},\"height\":{},\"width\":{},\"file_name\":\"{}.jpg\"}}",
                              i > 0 ? ",\n" : "", image, kSize.height, kSize.width, image);
    std::vector<Object> objects;
    for (std::int64_t k = 0; k < kObjectsPerImage; ++k) {
      objects.push_back(make_object(rng));
      annotations += id > 0 ? ",\n" : "";
      annotations += annotation_text(objects.back(), ++id, image, rng.uniform() < 0.01);
    }
    add_detections(rng, objects, image, detections, masks);
  }
  std::string categories;
  for (std::int64_t k = 1; k <= kCategories; ++k) {
    categories += fmt::format("{}{{\"id\":{},\"name\":\"category {}\"}}", k > 1 ? ",\n" : "", k, k);
  }
  files::write_atomic(folder / "gt.json", "{\"images\":[" + image_text + "],\n\"annotations\":[" +
                                              annotations + "],\n\"categories\":[" + categories +
                                              "]}\n");
  write_results_json(folder / "boxes.json", detections);
  write_results_json(folder / "masks.json", detections, masks);
  fmt::print("{} images, {} objects, {} detections, {:.0f} runs per mask\n", images, id,
             detections.size(),
             static_cast<double>(masks.run_count()) / static_cast<double>(masks.size()));
}

CocoEvalResult judge(const std::filesystem::path& folder, bool with_masks, int threads) {
  Timer timer;
  CheckReport report;
  const auto store =
      load_coco((folder / "gt.json").string(), {.keep_segmentation = with_masks}, report);
  const EvalInputs inputs = eval_inputs(*store);
  const double annotations_s = timer.restart();
  const RleList gt_masks = with_masks ? ground_truth_masks(*store, inputs, threads) : RleList();
  const double draw_s = timer.restart();
  const CocoResults results =
      read_results_json(folder / (with_masks ? "masks.json" : "boxes.json"), {.masks = with_masks});
  check_results_ids(results.detections, inputs);
  const double results_s = timer.restart();
  const CocoEvalOptions options = {.threads = threads};
  CocoEvalResult result =
      with_masks ? evaluate_coco_masks(inputs, gt_masks, results.detections, results.masks, options)
                 : evaluate_coco(inputs, results.detections, options);
  const double evaluate_s = timer.restart();
  fmt::print(
      "load {:.3f} s (annotations {:.3f}, draw {:.3f}, results {:.3f}), evaluate {:.3f} s (prepare "
      "{:.3f}; threads summed: match {:.3f}, accumulate {:.3f}), total {:.3f} s, peak {} MiB\n",
      annotations_s + draw_s + results_s, annotations_s, draw_s, results_s, evaluate_s,
      result.prepare_s, result.match_s, result.accumulate_s,
      annotations_s + draw_s + results_s + evaluate_s, peak_rss_bytes() >> 20);
  return result;
}

void print_judged(const std::filesystem::path& folder, bool with_masks, int threads) {
  fmt::print("{}:\n", with_masks ? "masks" : "boxes");
  fmt::print("{}", summary_table(judge(folder, with_masks, threads)));
}

/// Runs `work` in a process of its own, so that its peak memory is only its own.
template <typename Work>
bool in_child(Work&& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

std::int64_t number(int argc, char** argv, int at, std::int64_t otherwise) {
  return argc > at ? std::atoll(argv[at]) : otherwise;
}

int run_all(std::int64_t images, int threads) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("coco_eval_bench_{}", getpid());
  std::filesystem::create_directories(folder);
  const bool done = in_child([&] { make(folder, images); }) &&
                    in_child([&] { print_judged(folder, false, threads); }) &&
                    in_child([&] { print_judged(folder, true, threads); });
  std::filesystem::remove_all(folder);
  return done ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "make") {
    make(argv[2], number(argc, argv, 3, 5000));
  } else if (what == "boxes" || what == "masks") {
    print_judged(argv[2], what == "masks", static_cast<int>(number(argc, argv, 3, 0)));
  } else {
    return run_all(number(argc, argv, 1, 5000), static_cast<int>(number(argc, argv, 2, 0)));
  }
  return 0;
}
