#include "detforge/eval/coco_ground_truth.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "eval/eval_cases.h"
#include "support/test_data.h"

namespace detforge {
namespace {

std::shared_ptr<const CocoStore> load(const std::filesystem::path& path) {
  CheckReport report;
  return load_coco(path.string(), {}, report);
}

std::shared_ptr<const CocoStore> load_text(const std::string& annotations) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "gt.json",
                      R"({"images":[{"id":7,"height":100,"width":100,"file_name":"a.jpg"},)"
                      R"({"id":5,"height":100,"width":100,"file_name":"b.jpg"}],)"
                      R"("categories":[{"id":3,"name":"thing"}],"annotations":[)" +
                          annotations + "]}");
  return load(folder / "gt.json");
}

TEST(CocoGroundTruth, KeepsTheFilesBoxesAndAreas) {
  // Partly outside the image, and a crowd: evaluation uses both as they are.
  const auto store = load_text(
      R"({"id":1,"image_id":7,"category_id":3,"bbox":[90,10,20,30],"area":123.5,"iscrowd":0},)"
      R"({"id":2,"image_id":5,"category_id":3,"bbox":[0,0,10,10],"area":100,"iscrowd":1})");
  const EvalInputs inputs = eval_inputs(*store);
  EXPECT_EQ(inputs.image_ids, (std::vector<std::int64_t>{5, 7}));
  ASSERT_EQ(inputs.categories.size(), 1U);
  EXPECT_EQ(inputs.categories[0].name, "thing");
  ASSERT_EQ(inputs.ground_truth.size(), 2U);
  EXPECT_TRUE(inputs.ground_truth[0].is_crowd);
  EXPECT_EQ(inputs.ground_truth[1].image_id, 7);
  EXPECT_EQ(inputs.ground_truth[1].width, 20);
  EXPECT_EQ(inputs.ground_truth[1].area, 123.5);
}

TEST(CocoGroundTruth, TakesAPartOfTheImages) {
  const auto store = load_text(
      R"({"id":1,"image_id":7,"category_id":3,"bbox":[9,10,20,30],"area":600,"iscrowd":0})");
  const EvalInputs inputs = eval_inputs(*store, std::vector<std::int64_t>{5});
  EXPECT_EQ(inputs.image_ids, (std::vector<std::int64_t>{5}));
  EXPECT_TRUE(inputs.ground_truth.empty());
  EXPECT_THROW(eval_inputs(*store, std::vector<std::int64_t>{6}), Error);
}

TEST(FieldReportF81, AMissingAreaIsTheMasksElseTheBoxs) {
  const auto store =
      load_text(R"({"id":1,"image_id":7,"category_id":3,"bbox":[0,0,40,50],"iscrowd":0},)"
                R"({"id":2,"image_id":7,"category_id":3,"bbox":[0,0,40,50],"iscrowd":0,)"
                R"("segmentation":[[0,0,40,0,0,50]]})");
  const EvalInputs inputs = eval_inputs(*store);
  ASSERT_EQ(inputs.ground_truth.size(), 2U);
  EXPECT_EQ(inputs.ground_truth[0].area, 2000);
  EXPECT_NEAR(inputs.ground_truth[1].area, 1000,
              60);  // a triangle: half of the box, to the pixels on its edge
}

TEST(CocoGroundTruthParity, EqualsAPlainReadingOfEveryCase) {
  const auto cases = test::parity_cases([](const nlohmann::json& description) {
    return description.at("files").contains("dets_bbox.json");
  });
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& parity : cases) {
    SCOPED_TRACE(parity.folder.string());
    const EvalInputs plain = test::load_inputs(parity.folder / "gt.json");
    const EvalInputs inputs = eval_inputs(*load(parity.folder / "gt.json"));
    EXPECT_EQ(inputs.ground_truth.size(), plain.ground_truth.size());
    EXPECT_FALSE(plain.ground_truth.empty());
    const auto detections = test::perfect_detections(plain);
    const auto expected = evaluate_coco(plain, detections),
               actual = evaluate_coco(inputs, detections);
    EXPECT_EQ(actual.precision, expected.precision);
    EXPECT_EQ(actual.recall, expected.recall);
    EXPECT_EQ(actual.judged, expected.judged);
  }
}

std::vector<std::uint32_t> counts_of(const RleList& masks, std::size_t i) {
  return {masks[i].counts.begin(), masks[i].counts.end()};
}

TEST(CocoGroundTruthMasks, OneForEachObjectInItsOrder) {
  const auto store =
      load_text(R"({"id":1,"image_id":7,"category_id":3,"bbox":[1,1,2,3],"area":6,"iscrowd":0,)"
                R"("segmentation":[[1,1,3,1,3,4,1,4]]},)"
                R"({"id":2,"image_id":5,"category_id":3,"bbox":[0,0,1,9],"area":9,"iscrowd":1,)"
                R"("segmentation":{"size":[100,100],"counts":[0,9,9991]}},)"
                R"({"id":3,"image_id":7,"category_id":3,"bbox":[0,0,1,9],"area":9,"iscrowd":0})");
  EvalInputs inputs = eval_inputs(*store);  // images by id: annotations 2, 1, 3
  const RleList masks = ground_truth_masks(*store, inputs);
  ASSERT_EQ(masks.size(), 3U);
  EXPECT_EQ(counts_of(masks, 0), (std::vector<std::uint32_t>{0, 9, 9991}));
  EXPECT_EQ(counts_of(masks, 1), (std::vector<std::uint32_t>{101, 3, 97, 3, 9796}));
  EXPECT_EQ(counts_of(masks, 2), (std::vector<std::uint32_t>{10000}));  // no mask: empty
  EXPECT_EQ(masks[2].size, (ImageSize{100, 100}));

  inputs.ground_truth.erase(inputs.ground_truth.begin());
  const RleList fewer = ground_truth_masks(*store, inputs);
  ASSERT_EQ(fewer.size(), 2U);
  EXPECT_EQ(counts_of(fewer, 0), counts_of(masks, 1));
}

TEST(CocoGroundTruthMasks, AreTheSameForAnyNumberOfThreads) {
  std::string annotations;
  for (int i = 1; i <= 300; ++i) {
    annotations += i > 1 ? "," : "";
    annotations += fmt::format(R"({{"id":{},"image_id":7,"category_id":3,"bbox":[1,1,2,3],)"
                               R"("area":6,"iscrowd":0,"segmentation":[[{},1,90,{},3,80]]}})",
                               i, i % 50, i % 70);
  }
  const auto store = load_text(annotations);
  const EvalInputs inputs = eval_inputs(*store);
  const RleList one = ground_truth_masks(*store, inputs, 1),
                many = ground_truth_masks(*store, inputs, 5);
  ASSERT_EQ(one.size(), 300U);
  ASSERT_EQ(many.size(), 300U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(counts_of(one, i), counts_of(many, i)) << i;
  }
}

TEST(CocoGroundTruthMasks, RefuseObjectsOfAnotherDataSet) {
  const auto store =
      load_text(R"({"id":1,"image_id":7,"category_id":3,"bbox":[1,1,2,3],"area":6,"iscrowd":0})");
  EvalInputs inputs = eval_inputs(*store);
  inputs.ground_truth[0].store_index = 1;
  EXPECT_THROW(ground_truth_masks(*store, inputs), Error);
  inputs.ground_truth[0] = {.image_id = 7, .category_id = 3, .id = 1};
  EXPECT_THROW(ground_truth_masks(*store, inputs), Error);
}

}  // namespace
}  // namespace detforge
