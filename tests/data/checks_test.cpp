#include "detforge/data/checks.h"

#include <gtest/gtest.h>

#include "data/coco_files.h"

namespace detforge {
namespace {

using test::annotation;
using test::coco_skeleton;
using test::error_of;
using test::Json;
using test::LoadedCoco;

TEST(CheckPolicy, RefusesUnknownNamesAndActions) {
  CheckPolicy policy;
  policy.set("box_negative_size", "drop");
  EXPECT_EQ(policy.action(CheckKind::kBoxNegativeSize), CheckAction::kDrop);
  EXPECT_NE(
      error_of([&] { policy.set("box_zero_siez", "drop"); }).find("did you mean box_zero_size?"),
      std::string::npos);
  EXPECT_NE(error_of([&] { policy.set("box_zero_size", "keep"); }).find("fix, drop, error"),
            std::string::npos);
  EXPECT_NE(error_of([&] { policy.set("box_zero_size", "fix"); }).find("choose from: drop, error"),
            std::string::npos);
}

TEST(CheckReport, SentenceTableAndJsonSayWhatWasDropped) {
  Json json = coco_skeleton();
  json["annotations"] = {annotation(1, {10, 10, 0, 5}), annotation(2, {10, 10, 5, 0}),
                         annotation(3, {200, 10, 5, 5}), annotation(4, {10, 10, 5, 5})};
  const LoadedCoco coco(json);
  EXPECT_EQ(coco.report.dropped_sentence(),
            "Dropped 3 of 4 annotations: 2 box_zero_size, 1 box_outside.");
  const std::string text = coco.report.to_text();
  EXPECT_NE(text.find("box_zero_size"), std::string::npos);
  EXPECT_NE(text.find("annotation 1 (number 0 in the file), image 1: bbox [10, 10, 0, 5]"),
            std::string::npos)
      << text;
  const Json parsed = Json::parse(coco.report.to_json());
  EXPECT_EQ(parsed["dropped"], 3);
  EXPECT_EQ(parsed["problems"][0]["name"], "box_zero_size");
  EXPECT_EQ(parsed["problems"][0]["examples"][1]["id"], 2);
}

TEST(CheckReport, KeepsTenExamplesAndCountsAll) {
  Json json = coco_skeleton();
  for (int i = 0; i < 25; ++i) {
    json["annotations"].push_back(annotation(i, {10, 10, 0, 0}));
  }
  const LoadedCoco coco(json);
  EXPECT_EQ(coco.report.count(CheckKind::kBoxZeroSize), 25);
  EXPECT_EQ(coco.report.examples(CheckKind::kBoxZeroSize).size(), 10u);
}

TEST(CheckReport, EmptyForAFlawlessFile) {
  Json json = coco_skeleton();
  json["annotations"] = {annotation(1, {10, 10, 5, 5})};
  json["annotations"][0]["segmentation"] = {{10, 10, 15, 10, 15, 15}};
  EXPECT_EQ(LoadedCoco(json).report.to_text(), "");
}

TEST(CheckReport, PolicyErrorNamesFileAnnotationImageAndCount) {
  Json json = coco_skeleton();
  json["annotations"] = {annotation(7, {10, 10, 0, 5}), annotation(8, {10, 10, 0, 5})};
  CheckPolicy policy;
  policy.set(CheckKind::kBoxZeroSize, CheckAction::kError);
  const std::string error = error_of([&] { LoadedCoco(json, policy); });
  EXPECT_NE(error.find("bbox [10, 10, 0, 5]"), std::string::npos) << error;
  EXPECT_NE(error.find("first of 2"), std::string::npos);
  EXPECT_NE(error.find("gt.json, annotation 7 (number 0 in the file), image 1"), std::string::npos);
}

TEST(CheckCoco, ImagesNeedNamesAndOwnIds) {
  Json json = coco_skeleton();
  json["images"].push_back({{"id", 1}, {"file_name", "b.png"}, {"height", 10}, {"width", 10}});
  const std::string duplicate = error_of([&] { LoadedCoco{json}; });
  EXPECT_NE(duplicate.find("image id 1 is used by a.png and b.png"), std::string::npos)
      << duplicate;
  json["images"][1] = {{"id", 2}, {"height", 10}, {"width", 10}};
  EXPECT_NE(error_of([&] { LoadedCoco{json}; }).find("image 2"), std::string::npos);
  CheckPolicy policy;
  policy.set("image_without_file_name", "drop");
  EXPECT_EQ(LoadedCoco(json, policy).store->images().size(), 1u);
}

TEST(CheckCoco, CategoriesNeedOwnIdsAndNames) {
  Json json = coco_skeleton();
  json["categories"][1]["id"] = 1;
  EXPECT_NE(error_of([&] { LoadedCoco{json}; }).find("category id 1 is used by cell and dot"),
            std::string::npos);
  json["categories"][1] = {{"id", 2}, {"name", "cell"}};
  EXPECT_NE(error_of([&] { LoadedCoco{json}; }).find("both called cell"), std::string::npos);
}

TEST(CheckCoco, UnknownImageIsDroppedUnknownCategoryRefused) {
  Json json = coco_skeleton();
  json["annotations"] = {annotation(1, {1, 1, 5, 5}), annotation(2, {1, 1, 5, 5})};
  json["annotations"][0]["image_id"] = 99;
  const LoadedCoco coco(json);
  EXPECT_EQ(coco.report.dropped_sentence(), "Dropped 1 of 2 annotations: 1 unknown_image_id.");
  EXPECT_EQ(coco.store->annotations().size(), 1u);
  json["annotations"][1]["category_id"] = 77;
  EXPECT_NE(error_of([&] { LoadedCoco{json}; }).find("no category 77"), std::string::npos);
}

TEST(CheckCoco, BoxesThatAreNotFourFiniteNumbers) {
  std::string text = coco_skeleton().dump();
  const auto with = [&](const std::string& box) {
    std::string copy = text;
    const std::string a =
        R"({"id":5,"image_id":1,"category_id":1,"area":1,"iscrowd":0)" + box + "}";
    return copy.replace(copy.find("[],\"categories\""), 2, "[" + a + "]");
  };
  for (const char* number : {"NaN", "Infinity", "-Infinity", "1e999", "null"}) {
    const LoadedCoco coco(with(",\"bbox\":[1,1," + std::string(number) + ",5]"));
    EXPECT_EQ(coco.report.count(CheckKind::kBoxNotFinite), 1) << number;
    EXPECT_FALSE(coco.store->annotations()[0].usable);
  }
  EXPECT_EQ(LoadedCoco(with("")).report.count(CheckKind::kBoxMissing), 1);
  EXPECT_NE(error_of([&] { LoadedCoco(with(",\"bbox\":[1,2,3]")); }).find("annotation 5"),
            std::string::npos);
  EXPECT_NE(error_of([&] { LoadedCoco(with(",\"bbox\":[]")); }).find("bbox has 0 numbers"),
            std::string::npos);
  EXPECT_NE(error_of([&] { LoadedCoco(with(",\"bbox\":[1,2,\"3\",4]")); }).find("annotation 5"),
            std::string::npos);
}

TEST(CheckCoco, MissingBoxComesFromTheMask) {
  Json json = coco_skeleton();
  json["annotations"] = {annotation(1, nullptr)};
  json["annotations"][0]["segmentation"] = {{10, 10, 20, 10, 20, 30}, {5, 12, 8, 12, 8, 14}};
  const LoadedCoco coco(json);
  EXPECT_EQ(coco.report.count(CheckKind::kBoxFromMask), 1);
  EXPECT_EQ(coco.store->annotations()[0].box_xywh, (std::array<double, 4>{5, 10, 15, 20}));
}

TEST(CheckCoco, AnRleOfAWrongTypeIsThatAnnotationsProblemNotBrokenJson) {
  for (const char* rle :
       {R"({"size":[100,100],"counts":5})", R"({"size":[100,100],"counts":null})",
        R"({"counts":{"a":[1]},"size":[100,100]})", R"({"size":[100,100],"counts":true})",
        R"({"size":null,"counts":"1"})", R"({"size":"100","counts":[10000]})",
        R"({"size":[[100],[100]],"counts":[10000]})", R"({"size":[100,100],"counts":[null]})"}) {
    Json json = coco_skeleton();
    json["annotations"] = {annotation(31, {1, 1, 5, 5}), annotation(32, {2, 2, 5, 5})};
    json["annotations"][0]["segmentation"] = Json::parse(rle);
    json["annotations"][0]["score"] = 1;  // a key after it is read on
    const std::string error = error_of([&] { LoadedCoco{json}; });
    EXPECT_NE(error.find("annotation 31"), std::string::npos) << rle << error;
    EXPECT_NE(error.find("the RLE"), std::string::npos) << rle << error;
    CheckPolicy policy;
    policy.set("rle_malformed", "fix");
    const LoadedCoco coco(json, policy);
    EXPECT_EQ(coco.report.count(CheckKind::kRleMalformed), 1) << rle;
    EXPECT_EQ(test::usable(coco), (std::vector<bool>{true, true})) << rle;
  }
}

TEST(CheckCoco, RleProblemsAreRefusedNamingTheAnnotationOrDropOnlyTheMask) {
  for (const Json& rle :
       {Json{{"size", {100, 100}}, {"counts", {1, 2, 3}}},
        Json{{"size", {100, 100}}, {"counts", "4 4"}}, Json{{"size", {100}}, {"counts", {10000}}},
        Json{{"size", {100, 100}}, {"counts", {-1, 10001}}},
        Json{{"size", {50, 200}}, {"counts", {5000, 5000}}}}) {
    Json json = coco_skeleton();
    json["annotations"] = {annotation(31, {1, 1, 5, 5})};
    json["annotations"][0]["segmentation"] = rle;
    EXPECT_NE(error_of([&] { LoadedCoco{json}; }).find("annotation 31"), std::string::npos) << rle;
    CheckPolicy policy;
    policy.set("rle_malformed", "fix");
    policy.set("rle_size_mismatch", "fix");
    const LoadedCoco coco(json, policy);
    EXPECT_TRUE(coco.store->annotations()[0].usable);
    EXPECT_TRUE(coco.store->segmentation(coco.store->annotations()[0]).empty());
  }
}

}  // namespace
}  // namespace detforge
