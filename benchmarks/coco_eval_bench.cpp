// COCO box evaluation at the size of val2017: 5,000 images x 100 detections, 80 categories, 7
// objects per image.
//   coco_eval_bench [IMAGES] [THREADS]
// Prints seconds for reading the results file, grouping, matching and accumulating (the last two
// summed over threads), the wall time of evaluate_coco(), and the peak memory of the process before
// and after.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/rng.h"
#include "detforge/core/timer.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/coco_report.h"
#include "detforge/eval/results_json.h"

namespace {

using namespace detforge;

constexpr std::int64_t kCategories = 80, kObjectsPerImage = 7, kDetectionsPerImage = 100;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

EvalGroundTruth make_object(Rng& rng, std::int64_t image, std::int64_t id) {
  EvalGroundTruth object{.image_id = image, .category_id = 1, .id = id};
  // A third of the objects are of one category, as persons are in COCO.
  object.category_id =
      rng.uniform() < 0.3 ? 1 : 1 + static_cast<std::int64_t>(rng.below(kCategories));
  object.width = rng.uniform(5, 300);
  object.height = rng.uniform(5, 300);
  object.x = rng.uniform(0, 640 - object.width);
  object.y = rng.uniform(0, 480 - object.height);
  object.area = object.width * object.height * rng.uniform(0.4, 1);
  object.is_crowd = rng.uniform() < 0.01;
  return object;
}

/// Half of the detections are near an object of the image, half anywhere.
EvalDetection make_detection(Rng& rng, const EvalGroundTruth& object) {
  EvalDetection detection{.image_id = object.image_id, .category_id = object.category_id};
  if (rng.uniform() < 0.5) {
    detection.category_id = 1 + static_cast<std::int64_t>(rng.below(kCategories));
  }
  detection.x = object.x + object.width * rng.uniform(-0.2, 0.2);
  detection.y = object.y + object.height * rng.uniform(-0.2, 0.2);
  detection.width = object.width * rng.uniform(0.8, 1.2);
  detection.height = object.height * rng.uniform(0.8, 1.2);
  detection.score = static_cast<double>(static_cast<float>(rng.uniform()));
  return detection;
}

void fill(std::int64_t images, EvalInputs& inputs, std::vector<EvalDetection>& detections) {
  for (std::int64_t k = 1; k <= kCategories; ++k) {
    inputs.categories.push_back({k, fmt::format("category {}", k)});
  }
  for (std::int64_t image = 0; image < images; ++image) {
    Rng rng(1, RngPurpose::kTest, static_cast<std::uint64_t>(image));
    inputs.image_ids.push_back(image * 7 + 139);
    const std::size_t first = inputs.ground_truth.size();
    for (std::int64_t i = 0; i < kObjectsPerImage; ++i) {
      inputs.ground_truth.push_back(make_object(
          rng, inputs.image_ids.back(), static_cast<std::int64_t>(inputs.ground_truth.size()) + 1));
    }
    for (std::int64_t i = 0; i < kDetectionsPerImage; ++i) {
      detections.push_back(
          make_detection(rng, inputs.ground_truth[first + rng.below(kObjectsPerImage)]));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t images = argc > 1 ? std::atoll(argv[1]) : 5000;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  EvalInputs inputs;
  std::vector<EvalDetection> made;
  fill(images, inputs, made);
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("coco_eval_bench_{}.json", getpid());
  Timer timer;
  write_results_json(path, made);
  const double write_s = timer.restart();
  const std::vector<EvalDetection> detections = read_results_json(path).detections;
  const double read_s = timer.restart();
  std::filesystem::remove(path);
  const double before_mib = peak_mib();
  timer.restart();
  const CocoEvalResult result = evaluate_coco(inputs, detections, {.threads = threads});
  const double total_s = timer.elapsed_s();
  fmt::print("{}{} images, {} objects, {} detections\n", summary_table(result), result.image_count,
             result.ground_truth_count, result.detection_count);
  fmt::print("write results {:.3f} s, read results {:.3f} s\n", write_s, read_s);
  fmt::print(
      "group {:.3f} s, match {:.3f} s, accumulate {:.3f} s (threads summed), evaluate {:.3f} s "
      "wall\n",
      result.prepare_s, result.match_s, result.accumulate_s, total_s);
  fmt::print("peak RSS {:.0f} MiB before, {:.0f} MiB after\n", before_mib, peak_mib());
  return 0;
}
