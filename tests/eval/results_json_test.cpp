#include "detforge/eval/results_json.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

std::vector<EvalDetection> read_text(const std::string& text) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "results.json", text);
  return read_results_json(folder / "results.json");
}

/// The message of the Error that reading `text` gives; empty if it gives none.
std::string error_of(const std::string& text) {
  try {
    read_text(text);
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
  EXPECT_EQ(results_json_text(detections),
            "[{\"image_id\":7,\"category_id\":3,\"bbox\":[1.5,2,10,0.1],\"score\":0.25},\n"
            "{\"image_id\":-8,\"category_id\":0,\"bbox\":[0,0,1,1],\"score\":1}]\n");
  EXPECT_EQ(results_json_text({}), "[]\n");
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
                .find("image_id is not an integer"),
            std::string::npos);
  EXPECT_NE(error_of(R"([{"image_id":"7","category_id":9,"bbox":[1,2,3,4],"score":0.5}])")
                .find("image_id is not an integer"),
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
  EXPECT_THROW(results_json_text(std::vector<EvalDetection>{{.score = std::nan("")}}), Error);
  EXPECT_THROW(
      results_json_text(std::vector<EvalDetection>{{.x = std::numeric_limits<double>::infinity()}}),
      Error);
}

}  // namespace
}  // namespace detforge
