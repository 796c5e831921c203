#include "detforge/data/coco_json.h"

#include <gtest/gtest.h>

#include "data/coco_files.h"

namespace detforge {
namespace {

using test::annotation;
using test::coco_skeleton;
using test::error_of;
using test::Json;
using test::LoadedCoco;

std::string load_error(const std::string& text) {
  return error_of([&] { LoadedCoco{text}; });
}

TEST(CocoJson, ReadsKeysInAnyOrderAndSkipsUnknownOnes) {
  const LoadedCoco coco(std::string(R"({"info": {"x": [1, {"y": null}]}, "annotations": [
    {"bbox": [1, 2.5, 3, 4e0], "extra": {"a": []}, "category_id": 2, "iscrowd": true,
     "image_id": 5, "area": 7.25, "id": 9}],
    "categories": [{"name": "b", "id": 2, "supercategory": "s"}], "licenses": [], "images": [
    {"license": 1, "width": 20, "file_name": "d/\u00e4.jpg", "height": 10, "id": 5}]})"));
  const CocoImage& image = coco.store->images()[0];
  EXPECT_EQ(image.size, (ImageSize{10, 20}));
  EXPECT_EQ(coco.store->file_name(image), "d/\xC3\xA4.jpg");
  const CocoAnnotation& a = coco.store->annotations(image)[0];
  EXPECT_EQ(a.id, 9);
  EXPECT_EQ(a.category, 0);
  EXPECT_EQ(a.box_xywh, (std::array<double, 4>{1, 2.5, 3, 4}));
  EXPECT_EQ(a.area, 7.25);
  EXPECT_TRUE(a.is_crowd);
  EXPECT_TRUE(a.usable);
}

TEST(CocoJson, AcceptsByteOrderMark) {
  EXPECT_EQ(LoadedCoco("\xEF\xBB\xBF" + coco_skeleton().dump()).store->images().size(), 1u);
}

TEST(CocoJson, SortsImagesById) {
  Json json = coco_skeleton();
  json["images"] = {{{"id", 30}, {"file_name", "c"}, {"height", 9}, {"width", 9}},
                    {{"id", -4}, {"file_name", "a"}, {"height", 9}, {"width", 9}},
                    {{"id", 7}, {"file_name", "b"}, {"height", 9}, {"width", 9}}};
  for (const std::int64_t image : {30, 7, 30, -4}) {
    Json a = annotation(static_cast<std::int64_t>(json["annotations"].size()), {1, 1, 2, 2});
    a["image_id"] = image;
    json["annotations"].push_back(a);
  }
  const LoadedCoco coco(json);
  ASSERT_EQ(coco.store->images().size(), 3u);
  EXPECT_EQ(coco.store->images()[0].id, -4);
  EXPECT_EQ(coco.store->images()[2].id, 30);
  const auto last = coco.store->annotations(coco.store->images()[2]);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].id, 0);  // file order within the image
  EXPECT_EQ(last[1].id, 2);
  EXPECT_EQ(coco.store->find_image(7)->annotation_count, 1);
  EXPECT_EQ(coco.store->find_image(8), nullptr);
}

TEST(CocoJson, BrokenJsonNamesFileByteAndLine) {
  const std::string error =
      load_error("{\"images\": [],\n \"annotations\": [{\"id\": 1, \"image_id\" 2}]}");
  EXPECT_NE(error.find("gt.json"), std::string::npos) << error;
  EXPECT_NE(error.find("(line 2)"), std::string::npos) << error;
  EXPECT_NE(load_error("").find("gt.json"), std::string::npos);
  EXPECT_NE(load_error("[1, 2]").find("gt.json"), std::string::npos);
  const std::string whole = coco_skeleton().dump();
  for (std::size_t cut = 1; cut < whole.size(); cut += 7) {
    EXPECT_NE(load_error(whole.substr(0, cut)), "") << cut;
  }
}

TEST(CocoJson, NamesMissingTopLevelKey) {
  for (const char* key : {"images", "annotations", "categories"}) {
    Json json = coco_skeleton();
    json.erase(key);
    EXPECT_NE(load_error(json.dump()).find("no \"" + std::string(key) + "\""), std::string::npos);
  }
}

TEST(CocoJson, MissingFileIsNamed) {
  CheckReport report;
  EXPECT_NE(error_of([&] { load_coco("/nowhere/gt.json", {}, report); }).find("/nowhere/gt.json"),
            std::string::npos);
}

TEST(CocoJson, RefusesIdsThatAreNotExactIntegers) {
  for (const char* id : {"18446744073709551615", "9223372036854775808", "1.5", "1.0", "\"12\"",
                         "null", "1e3", "99999999999999999999999"}) {
    Json json = coco_skeleton();
    json["annotations"].push_back(annotation(412, {1, 1, 5, 5}));
    std::string text = json.dump();
    text.replace(text.find("\"image_id\":1"), 12, "\"image_id\":" + std::string(id));
    const std::string error = load_error(text);
    EXPECT_NE(error.find("image_id is " + std::string(id)), std::string::npos) << error;
    EXPECT_NE(error.find("annotation 412"), std::string::npos) << error;
  }
}

TEST(CocoJson, ReadsRleAsListAsTextAndPolygon) {
  Json json = coco_skeleton();
  json["images"][0]["height"] = 3;
  json["images"][0]["width"] = 4;
  json["annotations"] = {annotation(1, {1, 0, 2, 3}), annotation(2, {1, 0, 2, 3}),
                         annotation(3, {1, 0, 2, 3})};
  json["annotations"][0]["segmentation"] = {{"size", {3, 4}}, {"counts", {4, 4, 4}}};
  json["annotations"][1]["segmentation"] = {{"counts", "444"}, {"size", {3, 4}}};
  json["annotations"][2]["segmentation"] = {{0.5, 0, 3, 0, 3, 3}, {1, 1, 2, 1, 2, 2, 1, 2}};
  const LoadedCoco coco(json);
  const auto annotations = coco.store->annotations();
  const std::vector<std::uint32_t> runs{4, 4, 4};
  EXPECT_EQ(coco.store->segmentation(annotations[0]).rle.counts, runs);
  EXPECT_EQ(coco.store->segmentation(annotations[1]).rle.counts, runs);
  EXPECT_EQ(coco.store->segmentation(annotations[1]).rle.size, (ImageSize{3, 4}));
  const Segmentation polygons = coco.store->segmentation(annotations[2]);
  ASSERT_EQ(polygons.polygons.size(), 2u);
  EXPECT_EQ(polygons.polygons[0], (std::vector<double>{0.5, 0, 3, 0, 3, 3}));
  EXPECT_EQ(polygons.polygons[1].size(), 8u);
}

TEST(CocoJson, WithoutSegmentationsKeepsAreasAndChecks) {
  Json json = coco_skeleton();
  json["annotations"] = {annotation(1, {0, 0, 4, 3}), annotation(2, {0, 0, 4, 3})};
  json["annotations"][0].erase("area");
  json["annotations"][0]["segmentation"] = {{0, 0, 4, 0, 0, 3}};
  json["annotations"][1]["segmentation"] = {{1, 2}};
  const LoadedCoco coco(json, {}, {.keep_segmentation = false});
  EXPECT_EQ(coco.store->annotations()[0].area, 6);
  EXPECT_TRUE(coco.store->segmentation(coco.store->annotations()[0]).empty());
  EXPECT_EQ(coco.report.count(CheckKind::kMaskInvalid), 1);
}

TEST(CocoJson, RealFileHasAllItsAnnotations) {
  DETFORGE_REQUIRE_TEST_DATA("coco_sample");
  CheckReport report;
  const auto store =
      load_coco((test::test_data_dir() / "coco_sample/annotations/instances_val2017.json").string(),
                {}, report);
  EXPECT_EQ(store->images().size(), 57u);
  EXPECT_EQ(store->annotations().size(), 517u);
  EXPECT_EQ(store->categories().size(), 80u);
  std::size_t crowds = 0;
  for (const CocoAnnotation& a : store->annotations()) {
    crowds += a.is_crowd;
    EXPECT_FALSE(store->segmentation(a).empty());
  }
  EXPECT_EQ(crowds, 7u);
  EXPECT_FALSE(report.has_problems()) << report.to_text();
}

}  // namespace
}  // namespace detforge
