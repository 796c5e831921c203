#include "detforge/data/image_files.h"

#include <atomic>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "data/coco_files.h"
#include "detforge/data/annotations.h"
#include "detforge/data/parallel.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;

TEST(ForEachParallel, VisitsEveryIndexOnce) {
  for (const std::size_t count : {0U, 1U, 16U, 17U, 1000U}) {
    std::vector<std::atomic<int>> visits(count);
    for_each_parallel(count, [&](std::size_t i) { ++visits[i]; });
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(visits[i], 1) << i << " of " << count;
    }
  }
}

TEST(ForEachParallel, ThrowsAgainWhatTheWorkThrew) {
  const std::string error = error_of([] {
    for_each_parallel(500, [](std::size_t i) {
      if (i == 3) {
        throw Error("number 3", "none");
      }
    });
  });
  EXPECT_NE(error.find("number 3"), std::string::npos) << error;
}

TEST(ImagesBelow, AreSortedAndHiddenFilesAndOtherFilesLeftOut) {
  const TemporaryFolder folder;
  for (const char* name : {"b.jpg", "a.PNG", "sub/c.tiff", "sub/.d.jpg", ".cache/e.jpg", "f.txt"}) {
    files::write_atomic(folder / name, "x");
  }
  EXPECT_THAT(images_below(folder.path()),
              ElementsAre(folder / "a.PNG", folder / "b.jpg", folder / "sub/c.tiff"));
  EXPECT_NE(error_of([&] { images_below(folder / "none"); }).find("none"), std::string::npos);
}

TEST(CommonFolder, IsTheDeepestThatHoldsAll) {
  EXPECT_EQ(common_folder({"a/b/c.jpg", "a/b/d/e.jpg"}), "a/b");
  EXPECT_EQ(common_folder({"a/bc/x.jpg", "a/bd/x.jpg"}), "a");
  EXPECT_EQ(common_folder({"/a/x.jpg", "/b/x.jpg"}), "/");
  EXPECT_EQ(common_folder({"a/x.jpg"}), "a");
  EXPECT_EQ(common_folder({"a/x.jpg", "/a/x.jpg"}), "");
  EXPECT_EQ(common_folder({"x.jpg", "a/x.jpg"}), "");
  EXPECT_EQ(common_folder({}), "");
}

TEST(FileFinder, RepairsNamesButPrefersThemAsWritten) {
  const TemporaryFolder folder;
  for (const char* name :
       {"a.jpg", "A.jpg", "b.jpg", "set/b.jpg", "Two.JPG", "two.jpg", "C/d.jpg"}) {
    files::write_atomic(folder / name, "x");
  }
  FileFinder finder({folder.path()});
  struct Case {
    const char* written;
    const char* found;
    bool as_written;
  };
  const Case cases[] = {
      {"a.jpg", "a.jpg", true},
      {"./set/../a.jpg", "a.jpg", true},
      {"A.jpg", "A.jpg", true},
      {"B.JPG", "b.jpg", false},
      {"set\\b.jpg", "set/b.jpg", false},
      {"D:\\x\\set\\b.jpg", "set/b.jpg", false},
      {"/other/place/set/b.jpg", "set/b.jpg", false},
      {"Set/b.jpg", "b.jpg", false},
  };
  for (const Case& c : cases) {
    const auto found = finder.find(c.written);
    ASSERT_TRUE(found) << c.written;
    EXPECT_EQ(found->path, folder / c.found) << c.written;
    EXPECT_EQ(found->as_written, c.as_written) << c.written;
  }
  EXPECT_FALSE(finder.find("TWO.JPG"));  // two files fit
  EXPECT_FALSE(finder.find("lost.jpg"));
  EXPECT_FALSE(finder.find(""));
  EXPECT_EQ(finder.find_image(folder / "C", "d"), folder / "C/d.jpg");
  EXPECT_FALSE(finder.find_image(folder / "none", "d"));
}

TEST(SplitSource, IsBehindTheLastColonUnlessAFileIsCalledSo) {
  const TemporaryFolder folder;
  files::write_atomic(folder / "a:b", "x");
  EXPECT_EQ(parse_source("d/data.yaml:val", "train").path, "d/data.yaml");
  EXPECT_EQ(parse_source("d/data.yaml:val", "train").split, "val");
  EXPECT_EQ(parse_source("d/data.yaml", "train").split, "train");
  EXPECT_EQ(parse_source("C:/x", "train").path, "C:/x");
  EXPECT_EQ(parse_source((folder / "a:b").string(), "train").path, folder / "a:b");
}

TEST(SplitName, IsWhatTheSourceStandsFor) {
  using enum AnnotationFormat;
  EXPECT_EQ(split_name(kCoco, "a/instances_val2017.json"), "val2017");
  EXPECT_EQ(split_name(kCoco, "a/test.json"), "test");
  EXPECT_EQ(split_name(kYolo, "d/data.yaml:val"), "val");
  EXPECT_EQ(split_name(kYolo, "d/valid.txt"), "valid");
  EXPECT_EQ(split_name(kYolo, "d/images"), "train");
  EXPECT_EQ(split_name(kVoc, "VOC2007:trainval"), "trainval");
  EXPECT_EQ(split_name(kVoc, "VOC2007/ImageSets/Main/test.txt"), "test");
}

}  // namespace
}  // namespace detforge
