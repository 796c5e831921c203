// `detforge convert dataset` as its user meets it.

#include <filesystem>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

ProgramResult convert(const std::vector<std::string>& arguments, const fs::path& folder) {
  std::vector<std::string> words = {"convert", "dataset"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return test::run_program(test::program_path(), words, folder);
}

std::string bccd(const std::string& name) {
  return fs::absolute(test::test_data_dir() / "bccd" / name).string();
}

TEST(ConvertDatasetCli, GoesRoundThroughAllFormatsWithoutTheEngine) {
  DETFORGE_REQUIRE_PROGRAM();
  DETFORGE_REQUIRE_TEST_DATA("bccd");
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> steps = {
      {"--from", "coco", bccd("annotations/test.json"), "--images", bccd("images"), "--to", "yolo",
       "y", "--link-images"},
      {"--from", "yolo", "y/data.yaml:test", "--to", "voc", "v", "--copy-images"},
      {"--from", "voc", "v:test", "--to", "coco", "c", "--link-images", "--report", "report.json"},
  };
  for (const std::vector<std::string>& step : steps) {
    const ProgramResult result = convert(step, folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("72 images with 945 objects"));
  }
  const auto json =
      nlohmann::json::parse(files::read(folder / "c/annotations/instances_test.json"));
  EXPECT_EQ(json["annotations"].size(), 945u);
  EXPECT_EQ(json["categories"].size(), 3u);
  const auto name = json["images"][0]["file_name"].get<std::string>();
  EXPECT_TRUE(fs::is_regular_file(folder / ("c/test/" + name)));
  EXPECT_EQ(nlohmann::json::parse(files::read(folder / "report.json"))["images"], 72);
  // Again: nothing is overwritten without --force.
  const ProgramResult again = convert(steps[2], folder.path());
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, AllOf(HasSubstr("instances_test.json"), HasSubstr("--force")));
}

TEST(ConvertDatasetCli, PrintsTheChecksAndObeysPolicies) {
  DETFORGE_REQUIRE_PROGRAM();
  const TemporaryFolder folder;
  files::write_atomic(folder / "images/a.pgm", "P5 4 2 255 01234567");
  files::write_atomic(folder / "labels/a.txt", "0 0.5 0.5 1 1\n0 0.5 0.5 1 1\n5 0.5 0.5 1 1\n");
  files::write_atomic(folder / "names.txt", "cell\ndot\n");
  const std::vector<std::string> words = {"--from", "yolo",    "images",    "--to",
                                          "coco",   "gt.json", "--classes", "names.txt"};
  const ProgramResult refused = convert(words, folder.path());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("class 5, but there are 2 classes"),
                                 HasSubstr("labels/a.txt, line 3"), HasSubstr("fix: ")));
  EXPECT_FALSE(fs::exists(folder / "gt.json"));
  std::vector<std::string> dropping = words;
  dropping.insert(dropping.end(), {"--policy", "class_out_of_range=drop"});
  const ProgramResult result = convert(dropping, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("label_duplicate"), HasSubstr("labels/a.txt, line 2"),
                                HasSubstr("Dropped 2 of 3 annotations"),
                                HasSubstr("gt.json: 1 images with 1 objects")));
  dropping.insert(dropping.end(), {"--strict", "--force"});
  const ProgramResult strict = convert(dropping, folder.path());
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, HasSubstr("the data checks found problems"));
}

TEST(ConvertDatasetCli, SizesThatTheImagesDoNotHaveAreRefused) {
  DETFORGE_REQUIRE_PROGRAM();
  const TemporaryFolder folder;
  files::write_atomic(folder / "a.pgm", "P5 4 2 255 01234567");
  files::write_atomic(
      folder / "gt.json",
      R"({"images": [{"id": 1, "file_name": "a.pgm", "width": 2, "height": 4}], "annotations": [],
          "categories": [{"id": 1, "name": "cell"}]})");
  const ProgramResult result =
      convert({"--from", "coco", "gt.json", "--images", ".", "--to", "yolo", "y"}, folder.path());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("a.pgm"), HasSubstr("says 4 x 2"), HasSubstr("has 2 x 4")));
  EXPECT_FALSE(fs::exists(folder / "y"));
}

TEST(ConvertDatasetCli, WrongUsageIsStatusTwoAndSaysWhatToDo) {
  DETFORGE_REQUIRE_PROGRAM();
  const TemporaryFolder folder;
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "--from is missing"},
      {{"--from", "coco", "a"}, "--to is missing"},
      {{"--from", "coco", "--to", "voc"}, "SOURCE is missing"},
      {{"--from", "coco", "a", "--to", "voc"}, "OUT is missing"},
      {{"--from", "csv", "a", "--to", "voc", "b"}, "--from"},
      {{"--from", "coco", "a", "--to", "voc", "b", "c"}, "unexpected \"c\""},
      {{"--from", "coco", "a", "--to", "voc", "b", "--bogus"}, "unknown option --bogus"},
      {{"--from", "coco", "a", "--to", "voc", "b", "--policy", "x"}, "is not PROBLEM=ACTION"},
      {{"--from", "coco", "a", "--to", "voc", "b", "--policy", "box_zero_siez=drop"},
       "did you mean box_zero_size?"},
      {{"--from", "coco", "a", "--to", "voc", "b", "--copy-images", "--link-images"},
       "do not go together"},
  };
  for (const auto& [arguments, expected] : cases) {
    const ProgramResult result = convert(arguments, folder.path());
    const std::string line = testing::PrintToString(arguments);
    EXPECT_EQ(result.exit_code, 2) << line << result.err;
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr(expected), HasSubstr("fix: ")))
        << line;
  }
}

TEST(ConvertDatasetCli, TheGroupNamesItsCommands) {
  DETFORGE_REQUIRE_PROGRAM();
  const ProgramResult none = test::run_program(test::program_path(), {"convert"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("detforge convert --help"));
  const ProgramResult other = test::run_program(test::program_path(), {"convert", "datasets"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("unknown command \"datasets\""), HasSubstr("dataset")));
}

}  // namespace
}  // namespace detforge
