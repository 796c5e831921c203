#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/files.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/coco_ground_truth.h"
#include "detforge/eval/mask_eval.h"
#include "detforge/eval/results_json.h"
#include "detforge/eval/summary.h"
#include "eval/eval_cases.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

/// One entry of an expected.json of the test data's cocoeval folder.
struct DataCase {
  std::string name;  // empty: there is no test data
  std::filesystem::path ground_truth, detections;
  nlohmann::json entry;
};

std::vector<DataCase> data_cases() {
  std::vector<DataCase> cases;
  const auto root = test::test_data_dir();
  std::error_code ignored;
  for (const auto& folder : std::filesystem::directory_iterator(root / "cocoeval", ignored)) {
    if (!std::filesystem::exists(folder.path() / "expected.json")) {
      continue;
    }
    for (auto& entry : nlohmann::json::parse(files::read(folder.path() / "expected.json"))) {
      DataCase made;
      made.ground_truth = folder.path() / entry.at("gt").get<std::string>();
      if (!std::filesystem::exists(made.ground_truth)) {
        made.ground_truth =
            root / "coco_sample" / "annotations" / entry.at("gt").get<std::string>();
      }
      made.detections = folder.path() / entry.at("detections").get<std::string>();
      made.name = folder.path().filename().string() + "_" +
                  entry.at("iou_type").get<std::string>() +
                  (entry.value("use_cats", 1) == 0 ? "_no_categories" : "");
      made.entry = std::move(entry);
      cases.push_back(std::move(made));
    }
  }
  if (cases.empty()) {
    cases.push_back({.name = "no_test_data", .ground_truth = {}, .detections = {}, .entry = {}});
  }
  return cases;
}

void PrintTo(const DataCase& data_case, std::ostream* out) {
  *out << data_case.name;
}

class CocoEvalDataParity : public testing::TestWithParam<DataCase> {};

CocoEvalResult evaluate_boxes(const std::filesystem::path& ground_truth,
                              const std::filesystem::path& results,
                              const CocoEvalOptions& options) {
  const EvalInputs inputs = test::load_inputs(ground_truth);
  const auto detections = read_results_json(results).detections;
  check_results_ids(detections, inputs);
  return evaluate_coco(inputs, detections, options);
}

/// The whole way of masks: our reader, our drawing of polygons, our IoU.
CocoEvalResult evaluate_masks(const std::filesystem::path& ground_truth,
                              const std::filesystem::path& results,
                              CocoEvalOptions options) {
  CheckReport report;
  const auto store = load_coco(ground_truth.string(), {}, report);
  const EvalInputs inputs = eval_inputs(*store);
  const CocoResults read = read_results_json(results, {.masks = true, .images = store.get()});
  check_results_ids(read.detections, inputs);
  options.area_of_boxes = read.has_boxes;  // pycocotools' loadRes
  return evaluate_coco_masks(inputs, ground_truth_masks(*store, inputs), read.detections,
                             read.masks, options);
}

/// The values of one category under expected.json's names.
void expect_category(const CocoEvalResult& result, std::size_t k, const nlohmann::json& expected) {
  const CategoryMetrics& metrics = result.per_category[k];
  EXPECT_NEAR(pycocotools_form(metrics.ap), expected.at("AP").get<double>(), 1e-9);
  EXPECT_NEAR(pycocotools_form(metrics.ap50), expected.at("AP50").get<double>(), 1e-9);
  EXPECT_NEAR(pycocotools_form(metrics.ap75), expected.at("AP75").get<double>(), 1e-9);
  EXPECT_NEAR(pycocotools_form(metrics.ap_by_area[0]), expected.at("APs").get<double>(), 1e-9);
  EXPECT_NEAR(pycocotools_form(metrics.ap_by_area[1]), expected.at("APm").get<double>(), 1e-9);
  EXPECT_NEAR(pycocotools_form(metrics.ap_by_area[2]), expected.at("APl").get<double>(), 1e-9);
  EXPECT_NEAR(pycocotools_form(metrics.ar), expected.at("AR100").get<double>(), 1e-9);
}

TEST_P(CocoEvalDataParity, EqualsPycocotools) {
  const DataCase& data_case = GetParam();
  if (data_case.ground_truth.empty()) {
    GTEST_SKIP() << "no cocoeval in DETFORGE_TEST_DATA (default ../shared/data)";
  }
  const CocoEvalOptions options = {.use_categories = data_case.entry.value("use_cats", 1) != 0,
                                   .pycocotools_compat = true};
  const CocoEvalResult result =
      data_case.entry.at("iou_type") == "bbox"
          ? evaluate_boxes(data_case.ground_truth, data_case.detections, options)
          : evaluate_masks(data_case.ground_truth, data_case.detections, options);
  ASSERT_EQ(result.summary.size(), 12U);
  for (const SummaryMetric& metric : result.summary) {
    EXPECT_NEAR(pycocotools_form(metric.value),
                data_case.entry.at("stats").at(metric.key).get<double>(), 1e-9)
        << metric.key;
  }
  if (data_case.entry.contains("per_category")) {
    ASSERT_EQ(data_case.entry.at("per_category").size(), result.categories.size());
    for (std::size_t k = 0; k < result.categories.size(); ++k) {
      SCOPED_TRACE("category " + std::to_string(result.categories[k].id));
      expect_category(
          result, k,
          data_case.entry.at("per_category").at(std::to_string(result.categories[k].id)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Data,
                         CocoEvalDataParity,
                         testing::ValuesIn(data_cases()),
                         [](const auto& instance) { return instance.param.name; });

/// Fixture of every parity case that holds a COCO evaluation.
class CocoEvalUnitParity : public testing::Test {
 protected:
  static std::vector<test::ParityCase> cases() {
    return test::parity_cases([](const nlohmann::json& description) {
      return description.contains("stats_order") &&
             description.at("files").contains("dets_bbox.json") &&
             description.at("files").contains("dets_segm.json");
    });
  }
};

/// Precision, recall, scores and per-class AP of `type` ("bbox" or "segm").
void expect_arrays(const CocoEvalResult& result, const test::Npz& arrays, const std::string& type) {
  const auto precision = arrays.at(type + "/precision").to_double();
  const auto recall = arrays.at(type + "/recall").to_double();
  const auto scores = arrays.at(type + "/scores_iou50_all_100").to_double();
  const auto per_class = arrays.at(type + "/per_class_AP").to_double();
  ASSERT_EQ(precision.size(), result.precision.size());
  ASSERT_EQ(recall.size(), result.recall.size());
  ASSERT_FALSE(precision.empty() || recall.empty() || per_class.empty());
  const std::size_t area_count = result.options.area_ranges.size(),
                    category_count = result.categories.size();
  const double half_ulp = 6e-8;  // the arrays are stored as float32, values up to 1
  for (std::size_t i = 0; i < precision.size(); ++i) {
    const bool defined = result.defined(i / area_count % category_count, i % area_count);
    ASSERT_NEAR(defined ? result.precision[i] : -1, precision[i], half_ulp) << i;
  }
  const std::size_t max_dets = result.options.max_dets.size();
  for (std::size_t i = 0; i < recall.size(); ++i) {
    const bool defined =
        result.defined(i / max_dets / area_count % category_count, i / max_dets % area_count);
    ASSERT_NEAR(defined ? result.recall[i] : -1, recall[i], half_ulp) << i;
  }
  for (std::size_t k = 0; k < category_count; ++k) {
    EXPECT_NEAR(pycocotools_form(result.per_category[k].ap), per_class[k], half_ulp);
    for (std::size_t r = 0; r < result.options.recall_thresholds.size(); ++r) {
      const double score =
          result.defined(k, 0) ? result.scores[result.precision_index(0, r, k, 0)] : -1;
      ASSERT_NEAR(score, scores[r * category_count + k], half_ulp);
    }
  }
}

void expect_case(const CocoEvalResult& result,
                 const test::ParityCase& parity,
                 const std::string& type) {
  const auto& order = parity.description.at("stats_order");
  ASSERT_EQ(order.size(), result.summary.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(result.summary[i].key, order[i]);
    EXPECT_NEAR(pycocotools_form(result.summary[i].value),
                parity.description.at("stats").at(type)[i].get<double>(), 1e-9);
  }
  expect_arrays(result, test::read_npz(parity.folder / "eval.npz"), type);
}

TEST_F(CocoEvalUnitParity, BoxesEqualStatsAndArrays) {
  ASSERT_FALSE(cases().empty());
  for (const test::ParityCase& parity : cases()) {
    SCOPED_TRACE(parity.folder.string());
    expect_case(evaluate_boxes(parity.folder / "gt.json", parity.folder / "dets_bbox.json",
                               {.pycocotools_compat = true}),
                parity, "bbox");
  }
}

TEST_F(CocoEvalUnitParity, MasksEqualStatsAndArrays) {
  ASSERT_FALSE(cases().empty());
  for (const test::ParityCase& parity : cases()) {
    SCOPED_TRACE(parity.folder.string());
    expect_case(evaluate_masks(parity.folder / "gt.json", parity.folder / "dets_segm.json",
                               {.pycocotools_compat = true}),
                parity, "segm");
  }
}

}  // namespace
}  // namespace detforge
