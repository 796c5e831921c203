// The rows of FIELD_REPORTS.md section 1 from F14 on: images, classes, geometry, random numbers.
// The rows before are in field_reports_test.cpp.
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "data/picture_files.h"
#include "detforge/core/rng.h"
#include "detforge/data/loader.h"

namespace detforge {
namespace {

using test::DatasetFolder;
using test::encoded;
using test::error_of;
using test::Json;
using test::LoadedCoco;
using test::picture;
using test::usable;
using test::with_boxes;
using test::with_orientation;

/// A data set of one JPEG picture, stored 40 high and 100 wide, with this orientation.
CocoDatasetOptions turned_picture(DatasetFolder& data,
                                  char orientation,
                                  int json_height,
                                  int json_width) {
  data.add_image(5, "photo.jpg", with_orientation(encoded(".jpg", picture(40, 100)), orientation),
                 json_height, json_width);
  data.add_box(5, {1, 1, 20, 30});
  return data.options();
}

TEST(FieldReportF14, OnePolicyForPixelsAndSizeInAllEightOrientations) {
  for (char orientation = 1; orientation <= 8; ++orientation) {
    const bool turned = orientation >= 5;
    DatasetFolder right, wrong;
    const CocoDataset good(
        turned_picture(right, orientation, turned ? 100 : 40, turned ? 40 : 100));
    EXPECT_EQ(good.get(0).original_size, turned ? (ImageSize{100, 40}) : (ImageSize{40, 100}));
    const CocoDataset swapped(
        turned_picture(wrong, orientation, turned ? 40 : 100, turned ? 100 : 40));
    const std::string error = error_of([&] { swapped.get(0); });
    EXPECT_NE(error.find("they match only when swapped"), std::string::npos) << error;
    EXPECT_NE(error.find("photo.jpg"), std::string::npos) << error;
    EXPECT_NE(error.find("image 5"), std::string::npos) << error;
  }
}

TEST(FieldReportF14, TurningCanBeSwitchedOffForAllOrForTheSwapped) {
  DatasetFolder data;
  CocoDatasetOptions options = turned_picture(data, 6, 40, 100);
  options.policy.set("image_size_swapped", "fix");
  EXPECT_EQ(CocoDataset(options).get(0).original_size, (ImageSize{40, 100}));
  options.policy = {};
  options.read.apply_orientation = false;
  EXPECT_EQ(CocoDataset(options).get(0).original_size, (ImageSize{40, 100}));
  DatasetFolder other;
  EXPECT_NE(error_of([&] {
              CocoDataset(turned_picture(other, 1, 50, 100)).get(0);
            }).find("image_size_mismatch"),
            std::string::npos);
}

TEST(FieldReportF15, BrokenImagesStopOrAreSkippedAlwaysNamingThePath) {
  const std::string jpeg = encoded(".jpg", picture(64, 64));
  const std::map<std::string, std::string> broken{
      {"cut", jpeg.substr(0, jpeg.size() * 6 / 10)}, {"two", jpeg.substr(0, 2)}, {"none", ""}};
  DatasetFolder data;
  data.add_pictures(1);
  for (const auto& [name, bytes] : broken) {
    data.add_image(100 + data.json["images"].back()["id"].get<std::int64_t>(), name + ".jpg", bytes,
                   64, 64);
    data.add_box(data.json["images"].back()["id"], {1, 1, 9, 9});
  }
  data.add_image(9000, "missing.jpg", "", 64, 64);
  std::filesystem::remove(data.folder / "missing.jpg");
  data.add_box(9000, {1, 1, 9, 9});
  CocoDatasetOptions options = data.options();
  const CocoDataset stopping(options);
  for (std::int64_t i = 1; i < 5; ++i) {
    const std::string error = error_of([&] { stopping.get(i); });
    EXPECT_NE(error.find(stopping.path(i)), std::string::npos) << error;
    EXPECT_NE(error.find("image " + std::to_string(stopping.image_id(i))), std::string::npos)
        << error;
  }
  options.bad_image = CocoDatasetOptions::BadImage::kSkip;
  const CocoDataset skipping(options);
  for (std::int64_t i = 1; i < 5; ++i) {
    EXPECT_EQ(skipping.get(i).image_id, 10);  // the next good one, around the end
  }
  EXPECT_EQ(skipping.bad_images(), 4);
}

TEST(FieldReportF16, TheContentDecidesNotTheName) {
  DatasetFolder data;
  data.add_image(1, "png.jpg", encoded(".png", picture(20, 30)), 20, 30);
  data.add_image(2, "webp.jpg", encoded(".webp", picture(20, 30)), 20, 30);
  data.add_image(3, "html.jpg", "<!DOCTYPE html><html><body>404 Not Found</body></html>", 20, 30);
  for (const int id : {1, 2, 3}) {
    data.add_box(id, {1, 1, 9, 9});
  }
  const CocoDataset dataset = data.open();
  EXPECT_EQ(dataset.get(0).original_size, (ImageSize{20, 30}));
  EXPECT_EQ(dataset.get(1).original_size, (ImageSize{20, 30}));
  const std::string error = error_of([&] { dataset.get(2); });
  EXPECT_NE(error.find("HTML"), std::string::npos) << error;
  EXPECT_NE(error.find("html.jpg"), std::string::npos) << error;
}

TEST(FieldReportF17, EveryBitDepthAndChannelCountBecomesThreeChannels) {
  cv::Mat grey(20, 30, CV_8UC1, cv::Scalar(77)), deep(20, 30, CV_16UC1, cv::Scalar(77 * 256 + 200)),
      alpha(20, 30, CV_8UC4, cv::Scalar(77, 77, 77, 9));
  DatasetFolder data;
  data.add_image(1, "grey8.png", encoded(".png", grey), 20, 30);
  data.add_image(2, "grey16.png", encoded(".png", deep), 20, 30);
  data.add_image(3, "grey16.tif", encoded(".tif", deep), 20, 30);
  data.add_image(4, "rgba.png", encoded(".png", alpha), 20, 30);
  for (const int id : {1, 2, 3, 4}) {
    data.add_box(id, {1, 1, 9, 9});
  }
  const CocoDataset dataset = data.open();
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(dataset.get(i).image.bgr, std::vector<std::uint8_t>(20 * 30 * 3, 77))
        << dataset.path(i);
  }
}

TEST(FieldReportF17, CmykAndPaletteOfTheSamePictureAgree) {
  DETFORGE_REQUIRE_TEST_DATA("awkward");
  const std::filesystem::path folder = test::test_data_dir() / "awkward";
  int seen = 0;
  for (const auto& entry : nlohmann::json::parse(files::read(folder / "index.json"))) {
    const std::string special = entry["special"];
    if (entry["expect"] != "decode" || (special.find("CMYK") == std::string::npos &&
                                        special.find("palette") == std::string::npos)) {
      continue;
    }
    const Image image = read_image((folder / entry["file"].get<std::string>()).string());
    double red = 0;
    for (std::size_t i = 2; i < image.bgr.size(); i += 3) {
      red += image.bgr[i];
    }
    EXPECT_NEAR(red / static_cast<double>(image.height * image.width),
                entry["mean_rgb"][0].get<double>(), 1.5)
        << entry["file"];
    ++seen;
  }
  EXPECT_GE(seen, 2);
}

TEST(FieldReportF18, OptionalKeysMayBeAbsentOneAtATime) {
  Json whole = with_boxes({{10, 10, 20, 30}});
  whole["info"] = Json::object();
  whole["licenses"] = Json::array();
  whole["annotations"][0]["segmentation"] = {{10, 10, 30, 10, 30, 40, 10, 40}};
  for (const char* key : {"info", "licenses"}) {
    Json json = whole;
    json.erase(key);
    EXPECT_FALSE(LoadedCoco(json).report.has_problems());
  }
  const std::map<std::string, CheckKind> kinds{{"area", CheckKind::kMissingArea},
                                               {"iscrowd", CheckKind::kMissingIscrowd},
                                               {"segmentation", CheckKind::kMissingSegmentation}};
  for (const auto& [key, kind] : kinds) {
    Json json = whole;
    json["annotations"][0].erase(key);
    const LoadedCoco coco(json);
    EXPECT_EQ(coco.report.count(kind), 1) << key;
    EXPECT_NE(coco.report.to_text().find("missing_" + key), std::string::npos);
    EXPECT_EQ(coco.store->annotations()[0].area, key == "area" ? 600 : 1);  // the mask's
    EXPECT_FALSE(coco.store->annotations()[0].is_crowd);
  }
  whole["annotations"][0].erase("area");
  whole["annotations"][0].erase("segmentation");
  whole["annotations"][0]["bbox"] = {10, 10, 7, 9};
  EXPECT_EQ(LoadedCoco(whole).store->annotations()[0].area, 63);  // the box's
}

TEST(FieldReportF19, AClassListThatMatchesNothingIsRefusedWithTheNearestName) {
  DatasetFolder data;
  data.json["categories"] = {{{"id", 1}, {"name", "car"}}, {{"id", 2}, {"name", "bus"}}};
  data.add_image(1, "a.png", encoded(".png", picture(20, 30)), 20, 30);
  data.add_box(1, {1, 1, 9, 9}, 1);
  CocoDatasetOptions options = data.options();
  options.classes = {"Car"};
  const std::string error = error_of([&] { CocoDataset{options}; });
  EXPECT_NE(error.find("did you mean car?"), std::string::npos) << error;
  EXPECT_NE(error.find("its categories are: car, bus"), std::string::npos) << error;
  options.classes = {"C", "a", "r"};  // a bare string taken for a list
  EXPECT_NE(error_of([&] { CocoDataset{options}; }).find("none of the listed classes"),
            std::string::npos);
  options.classes = {"bus"};
  EXPECT_NE(
      error_of([&] { CocoDataset{options}; }).find("Dropped 1 of 1 annotations: 1 class_filtered."),
      std::string::npos);
  options.classes = {"car", "bus"};
  const CocoDataset dataset(options);
  EXPECT_EQ(dataset.reports()[0].examples(CheckKind::kClassWithoutInstances)[0].detail, "bus");
  EXPECT_EQ(dataset.histogram(), (std::vector<std::int64_t>{1, 0}));
}

// F20 is about YOLO labels, where one coordinate of 1.0002 cost the whole image. In COCO's pixels:
// an overrun that is rounding (at most 1e-3) is no problem under any policy; a box that is bad is
// lost alone.
TEST(FieldReportF20, ATinyOverrunIsClippedAndOnlyTheBadBoxIsLost) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  data.add_box(1, {-0.001, 10, 80.0015, 20});
  data.add_box(1, {10, 59, 5, 1.0005});
  data.add_box(1, {10, 10, 70.0011, 5});
  data.add_box(1, {200, 10, 5, 5});
  CocoDatasetOptions options = data.options();
  options.policy.set("box_clipped", "drop");
  const CocoDataset dataset(options);
  ASSERT_EQ(dataset.size(), 1);
  const Sample sample = dataset.get(0);
  ASSERT_EQ(sample.instances.size(), 2U);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 10, 80, 30}));
  EXPECT_EQ(sample.instances[1].box, (Box{10, 59, 15, 60}));
  EXPECT_EQ(dataset.reports()[0].dropped_sentence(),
            "Dropped 2 of 4 annotations: 1 box_outside, 1 box_clipped.");
}

TEST(FieldReportF20, ALargerOverrunIsClippedAndReported) {
  const LoadedCoco coco(with_boxes({{0, 40, 100.04, 20}, {1, 1, 5, 5}, {1, 1, 5, 0}}));
  EXPECT_EQ(usable(coco), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(coco.report.count(CheckKind::kBoxClipped), 1);
}

TEST(FieldReportF22, OnePixelAndFullBoxesSurviveFlipAndResizeExactly) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(50, 80)), 50, 80);
  data.add_box(1, {0, 0, 1, 1});
  data.add_box(1, {0, 0, 80, 50});
  const CocoDataset dataset = data.open();
  const TransformPipeline transforms({.min_sizes = {100}, .max_size = 1000, .flip_probability = 1});
  Sample sample = dataset.get(0);
  Rng rng(1, RngPurpose::kTest);
  transforms.apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{100, 160}));
  EXPECT_EQ(sample.instances[0].box, (Box{158, 0, 160, 2}));
  EXPECT_EQ(sample.instances[1].box, (Box{0, 0, 160, 100}));
  const Batch batch = collate({sample}, {});
  EXPECT_EQ(batch.targets[0].boxes[0][2].item<float>() - batch.targets[0].boxes[0][0].item<float>(),
            2);  // no + 1
}

TEST(FieldReportF23, AugmentationDiffersBetweenSamplesAndEpochsNotBetweenThreads) {
  DatasetFolder data;
  for (int i = 0; i < 64; ++i) {
    data.add_image(i, std::to_string(i) + ".png", encoded(".png", picture(40, 40)), 40, 40);
    data.add_box(i, {1, 1, 30, 30});
  }
  const CocoDataset dataset = data.open();
  // A random size and a random window: their place shows in the box.
  const TransformPipeline transforms({.min_sizes = {40, 400},
                                      .max_size = 500,
                                      .sample_style = ResizeShortestEdge::Style::kRange,
                                      .crop = true,
                                      .crop_options = {.size = {0.5, 0.5}}});
  std::vector<std::map<std::uint64_t, std::string>> runs;
  for (const int threads : {1, 4}) {
    TrainLoader loader(dataset, transforms, {.batch_size = 4, .threads = threads, .seed = 3});
    std::map<std::uint64_t, std::string>& augmented = runs.emplace_back();
    for (int i = 0; i < 2 * 64 / 4; ++i) {
      const Batch batch = loader.next();
      for (std::size_t k = 0; k < 4; ++k) {
        std::string shown = std::to_string(batch.images.sizes[k].height) + " " +
                            std::to_string(batch.images.sizes[k].width);
        for (int c = 0; c < 4 && batch.targets[k].boxes.size(0) > 0; ++c) {
          shown += " " + std::to_string(batch.targets[k].boxes[0][c].item<float>());
        }
        augmented[batch.images.rng_keys[k]] = shown;
      }
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0].size(), 128u);  // a key of its own for each sample of each epoch
  std::set<std::string> distinct;
  for (const auto& [key, shown] : runs[0]) {
    distinct.insert(shown);
  }
  EXPECT_EQ(distinct.size(), 128u);
}

TEST(FieldReportF24, EveryEpochHasAnotherOrderInEveryWorldSize) {
  for (const std::int64_t world : {1, 2, 8}) {
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      BatchSampler sampler(
          {.size = 64, .batch_size = world, .seed = 0, .rank = rank, .world_size = world});
      std::map<std::int64_t, std::vector<std::int64_t>> by_epoch;
      for (std::int64_t i = 0; i < 3 * 64 / world; ++i) {
        const Draw draw = sampler.next()[0];
        by_epoch[draw.epoch].push_back(draw.index);
      }
      EXPECT_EQ(by_epoch.size(), 3u);
      for (const auto& [epoch, order] : by_epoch) {
        EXPECT_TRUE(orders.insert(order).second)
            << "world " << world << " rank " << rank << " epoch " << epoch;
      }
    }
  }
}

}  // namespace
}  // namespace detforge
