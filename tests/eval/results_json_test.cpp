#include "detforge/eval/results_json.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/rng.h"
#include "support/test_data.h"

namespace detforge {
namespace {

CocoResults read_results(const std::string& text, const ResultsReadOptions& options) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "results.json", text);
  return read_results_json(folder / "results.json", options);
}

std::vector<EvalDetection> read_text(const std::string& text) {
  return read_results(text, {}).detections;
}

CocoResults read_masks(const std::string& text) {
  return read_results(text, {.masks = true});
}

std::string text_of(const std::vector<EvalDetection>& detections, const RleList& masks = {}) {
  std::string text;
  write_results_text(detections, masks, [&](std::string_view piece) { text += piece; });
  return text;
}

std::vector<std::uint32_t> counts_of(const RleList& masks, std::size_t i) {
  return {masks[i].counts.begin(), masks[i].counts.end()};
}

/// The message of the Error that reading `text` gives; empty if it gives none.
std::string error_of(const std::string& text, const ResultsReadOptions& options = {}) {
  try {
    read_results(text, options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(ResultsJson, WritesTheFormatOfCoco) {
  const std::vector<EvalDetection> detections = {
      {.image_id = 7,
       .category_id = 3,
       .x = 1.5,
       .y = 2,
       .width = 10,
       .height = 0.1,
       .score = 0.25},
      {.image_id = -8, .category_id = 0, .x = 0, .y = 0, .width = 1, .height = 1, .score = 1}};
  EXPECT_EQ(text_of(detections),
            "[{\"image_id\":7,\"category_id\":3,\"bbox\":[1.5,2,10,0.1],\"score\":0.25},\n"
            "{\"image_id\":-8,\"category_id\":0,\"bbox\":[0,0,1,1],\"score\":1}]\n");
  EXPECT_EQ(text_of({}), "[]\n");
}

TEST(ResultsJson, ReadsKeysInAnyOrderAndSkipsOthers) {
  const auto read =
      read_text(R"([{"score":0.5,"segmentation":{"counts":"ab]}","size":[1,2]},"bbox":[1,2,3,4e0],)"
                R"("image_id":7,"area":3,"category_id":9}])");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].image_id, 7);
  EXPECT_EQ(read[0].category_id, 9);
  EXPECT_EQ(read[0].height, 4);
  EXPECT_EQ(read[0].score, 0.5);
}

TEST(ResultsJson, ReadsAnEmptyList) {
  EXPECT_TRUE(read_text(" [ ] \n").empty());
}

TEST(ResultsJson, NamesTheEntryThatIsWrong) {
  const std::string good = R"({"image_id":7,"category_id":9,"bbox":[1,2,3,4],"score":0.5})";
  EXPECT_NE(error_of("[" + good + R"(,{"image_id":7,"category_id":9,"bbox":[1,2,3],"score":0.5}])")
                .find("entry 1"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"image_id":7,"category_id":9,"bbox":[1,2,3],"score":0.5}])")
                .find("bbox has 3 numbers"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"image_id":7,"category_id":9,"score":0.5}])").find("no key \"bbox\""),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"image_id":7.5,"category_id":9,"bbox":[1,2,3,4],"score":0.5}])")
                .find("not a 64-bit integer"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"image_id":"7","category_id":9,"bbox":[1,2,3,4],"score":0.5}])")
                .find("not a 64-bit integer"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"image_id":7,"category_id":9,"bbox":[1,2,"x",4],"score":0.5}])")
                .find("entry 0"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"([{"image_id":7,"category_id":9,"bbox":[1,2,3,4],"score":null}])").find("entry 0"),
      std::string::npos);
  EXPECT_NE(error_of("[7]").find("entry 0"), std::string::npos);
  EXPECT_NE(error_of("[" + good + "] trailing").find("results.json"), std::string::npos);
  EXPECT_NE(error_of("[" + good + "] [" + good + "]").find("after the end"), std::string::npos);
  EXPECT_NE(error_of("[" + good).find("results.json"), std::string::npos);
  EXPECT_NE(error_of("{}").find("not a list"), std::string::npos);
  EXPECT_NE(error_of("").find("results.json"), std::string::npos);
}

TEST(ResultsJson, RefusesToWriteWhatJsonCannotSay) {
  EXPECT_THROW(text_of(std::vector<EvalDetection>{{.score = std::nan("")}}), Error);
  EXPECT_THROW(text_of(std::vector<EvalDetection>{{.x = std::numeric_limits<double>::infinity()}}),
               Error);
}

// 3 x 4 (height x width), runs 4 4 4: rows 1-2 of column 1, rows 0-1 of column 2.
constexpr const char* kEntry = R"("image_id":7,"category_id":9,"score":0.5)";
constexpr const char* kRle = R"("segmentation":{"size":[3,4],"counts":"444"})";

std::string entry(const std::string& more) {
  return std::string("[{") + kEntry + "," + more + "}]";
}

TEST(ResultsJsonMasks, AreWrittenWithBackslashesEscaped) {
  // 44 = 0b00001'01100: low group 12 with more = 48 + 12 + 32 = 92, the backslash; then 1.
  RleList masks;
  masks.push_back(Rle{{4, 12}, {4, 44}});
  const std::vector<EvalDetection> detections = {
      {.image_id = 7, .category_id = 3, .x = 1, .y = 2, .width = 10, .height = 5, .score = 0.25}};
  const std::string text = text_of(detections, masks);
  EXPECT_EQ(text,
            "[{\"image_id\":7,\"category_id\":3,\"bbox\":[1,2,10,5],\"score\":0.25,"
            "\"segmentation\":{\"size\":[4,12],\"counts\":\"4\\\\1\"}}]\n");
  const CocoResults read = read_masks(text);
  EXPECT_EQ(counts_of(read.masks, 0), (std::vector<std::uint32_t>{4, 44}));
  EXPECT_EQ(read.masks[0].size, (ImageSize{4, 12}));
  EXPECT_EQ(read.detections[0].width, 10);
}

TEST(ResultsJsonMasks, AFileOfManyPiecesReadsBackTheSame) {
  Rng rng(3, RngPurpose::kTest);
  std::vector<EvalDetection> detections;
  RleList masks;
  for (int i = 0; i < 20000; ++i) {
    detections.push_back({.image_id = i, .category_id = 1, .score = rng.uniform()});
    const auto first = static_cast<std::uint32_t>(rng.below(1000));
    masks.push_back(Rle{{10, 500}, {first, 3000 - first, 2000}});
  }
  const test::TemporaryFolder folder;
  write_results_json(folder / "results.json", detections, masks);
  EXPECT_GT(std::filesystem::file_size(folder / "results.json"), 2U << 20);
  const CocoResults read = read_results_json(folder / "results.json", {.masks = true});
  ASSERT_EQ(read.detections.size(), detections.size());
  ASSERT_EQ(read.masks.size(), masks.size());
  for (std::size_t i = 0; i < detections.size(); ++i) {
    ASSERT_EQ(read.detections[i].score, detections[i].score);
    ASSERT_EQ(counts_of(read.masks, i), counts_of(masks, i));
  }
  EXPECT_TRUE(read_results_json(folder / "results.json").masks.empty());
  EXPECT_THROW(write_results_text(std::span(detections).first(1), masks, [](auto) {}), Error);
}

TEST(ResultsJsonMasks, CountsMayBeAListOfRuns) {
  const auto read =
      read_masks(entry(R"("segmentation":{"counts":[4,4,4],"size":[3,4]},"bbox":[0,0,1,1])"));
  EXPECT_EQ(counts_of(read.masks, 0), (std::vector<std::uint32_t>{4, 4, 4}));
  EXPECT_EQ(read.detections[0].width, 1);  // the file's box, not the mask's
}

// Some writers escape "<" (60, the value 12) as backslash u003c.
TEST(ResultsJsonMasks, TextMayHoldAnyEscapeOfJson) {
  for (const char* text : {R"(\u003c<)", R"(<\u003C)", "<<"}) {
    const auto read =
        read_masks(entry(fmt::format(R"("segmentation":{{"size":[4,6],"counts":"{}" }})", text)));
    EXPECT_EQ(counts_of(read.masks, 0), (std::vector<std::uint32_t>{12, 12})) << text;
  }
  const auto slashes = read_masks(entry(R"("segmentation":{"size":[4,12],"counts":"\\1\u0034"})"));
  EXPECT_EQ(counts_of(slashes.masks, 0), (std::vector<std::uint32_t>{44, 4}));
}

TEST(ResultsJsonMasks, AMissingBoxIsTheMasks) {
  // Two entries, and a key behind the mask, because the mask is looked up a second time.
  const std::string one = fmt::format(R"({{{},{},"more":[{{"a":[1,2]}}]}})", kEntry, kRle);
  for (const bool masks : {false, true}) {
    const auto all = read_results("[" + one + "," + one + "]", {.masks = masks});
    ASSERT_EQ(all.detections.size(), 2U);
    EXPECT_EQ(all.masks.size(), masks ? 2U : 0U);
    for (const EvalDetection& read : all.detections) {
      EXPECT_EQ(read.x, 1);
      EXPECT_EQ(read.y, 0);
      EXPECT_EQ(read.width, 2);
      EXPECT_EQ(read.height, 3);
      EXPECT_EQ(read.score, 0.5);
    }
  }
  EXPECT_FALSE(read_masks(entry(kRle)).has_boxes);
  EXPECT_TRUE(read_masks(entry(std::string(kRle) + R"(,"bbox":[0,0,1,1])")).has_boxes);
}

// pycocotools' loadRes takes the mask's box for "bbox": [] as it does without the key.
TEST(ResultsJsonMasks, AnEmptyBoxCountsAsMissing) {
  for (const std::string& keys :
       {std::string(R"("bbox":[],)") + kRle, kRle + std::string(R"(,"bbox":[])")}) {
    for (const bool masks : {false, true}) {
      const CocoResults read = read_results(entry(keys), {.masks = masks});
      EXPECT_FALSE(read.has_boxes);
      EXPECT_EQ(read.masks.size(), masks ? 1U : 0U);
      ASSERT_EQ(read.detections.size(), 1U);
      EXPECT_EQ(read.detections[0].x, 1);
      EXPECT_EQ(read.detections[0].width, 2);
      EXPECT_EQ(read.detections[0].height, 3);
    }
  }
  EXPECT_NE(error_of(entry(R"("bbox":[])")).find("no key \"bbox\" with numbers"),
            std::string::npos);
}

TEST(ResultsJsonMasks, PolygonsAreDrawnAtTheSizeOfTheirImage) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "gt.json",
                      R"({"images":[{"id":7,"height":6,"width":8,"file_name":"a.jpg"}],)"
                      R"("categories":[{"id":9,"name":"thing"}],"annotations":[]})");
  CheckReport report;
  const auto store = load_coco((folder / "gt.json").string(), {}, report);
  const std::string text = entry(R"("segmentation":[[1,1,3,1,3,4,1,4]])");
  const auto read = read_results(text, {.masks = true, .images = store.get()});
  // Columns 1 and 2, rows 1 to 3.
  EXPECT_EQ(counts_of(read.masks, 0), (std::vector<std::uint32_t>{7, 3, 3, 3, 32}));
  EXPECT_EQ(read.detections[0].x, 1);
  EXPECT_EQ(read.detections[0].height, 3);
  EXPECT_NE(error_of(text, {.masks = true}).find("size of image 7 is not known"),
            std::string::npos);
}

TEST(ResultsJsonMasks, NamesTheEntryThatIsWrong) {
  const ResultsReadOptions masks = {.masks = true};
  EXPECT_NE(error_of(entry(R"("bbox":[0,0,1,1])"), masks).find("no key \"segmentation\""),
            std::string::npos);
  const std::string damaged =
      error_of(entry(R"("segmentation":{"size":[3,4],"counts":"44"})"), masks);
  EXPECT_NE(damaged.find("sum to 8"), std::string::npos) << damaged;
  EXPECT_NE(damaged.find("results.json, entry 0"), std::string::npos) << damaged;
  for (
      const char* wrong :
      {R"("segmentation":7)", R"("segmentation":null)", R"("segmentation":[1,2,3])",
       R"("segmentation":{"counts":"444"})", R"("segmentation":{"size":[3,4]})",
       R"("segmentation":{"size":[3],"counts":"444"})",
       R"("segmentation":{"size":[3,4],"counts":"4 4"})",
       R"("segmentation":{"size":[3,4],"counts":7})",
       R"("segmentation":{"size":[3,4],"counts":[-1,13]})",
       R"("segmentation":{"size":[3,4],"counts":"444"},"segmentation":{"size":[3,4],"counts":"444"})"}) {
    EXPECT_NE(error_of(entry(wrong), masks).find("entry 0"), std::string::npos) << wrong;
  }
  // Where masks are not wanted and there is a box, they are not looked at.
  EXPECT_EQ(error_of(entry(R"("segmentation":{"counts":"4 4"},"bbox":[0,0,1,1])")), "");
}

}  // namespace
}  // namespace detforge
