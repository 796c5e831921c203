#include "detforge/data/dataset.h"

#include <gtest/gtest.h>

#include "data/picture_files.h"

namespace detforge {
namespace {

using test::DatasetFolder;
using test::encoded;
using test::error_of;
using test::picture;

TEST(CocoDataset, GivesPixelsBoxesAndLabelsByImageId) {
  DatasetFolder data;
  data.json["categories"] = {{{"id", 9}, {"name", "dot"}}, {{"id", 4}, {"name", "cell"}}};
  data.add_image(7, "b.png", encoded(".png", picture(20, 30, 1)), 20, 30);
  data.add_image(3, "a.png", encoded(".png", picture(10, 12, 2)), 10, 12);
  data.add_box(3, {1, 2, 3, 4}, 9);
  data.add_box(7, {5, 5, 6, 6}, 4);
  data.add_box(7, {-2, 15, 10, 10}, 9);
  data.json["annotations"][2]["iscrowd"] = 1;
  const CocoDataset dataset = data.open();
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.class_names(), (std::vector<std::string>{"cell", "dot"}));  // by category id
  EXPECT_EQ(dataset.category_ids()[1], 9);
  EXPECT_EQ(dataset.image_id(0), 3);
  const Sample first = dataset.get(0), second = dataset.get(1);
  EXPECT_EQ(first.path, (data.folder / "a.png").string());
  EXPECT_EQ(first.original_size, (ImageSize{10, 12}));
  EXPECT_EQ(first.image.row(4)[3 * 5 + 2], 14);  // shade 2
  EXPECT_EQ(first.instances[0].label, 1);
  EXPECT_EQ(first.instances[0].box, (Box{1, 2, 4, 6}));
  ASSERT_EQ(second.instances.size(), 2u);
  EXPECT_EQ(second.instances[1].box, (Box{0, 15, 8, 20}));  // clipped
  EXPECT_TRUE(second.instances[1].is_crowd);
  EXPECT_EQ(dataset.histogram(), (std::vector<std::int64_t>{1, 1}));  // crowds do not count
  EXPECT_NE(dataset.class_table().find("cell"), std::string::npos);
  EXPECT_EQ(dataset.is_wide(), (std::vector<bool>{true, true}));
}

TEST(CocoDataset, FilterEmptyLeavesOutImagesWithoutUsableObjects) {
  DatasetFolder data;
  data.add_pictures(10);
  test::Json& list = data.json["annotations"];
  list.erase(list.begin() + 8, list.end());
  data.json["annotations"][0]["bbox"] = {1, 1, 0, 4};
  data.json["annotations"][1]["iscrowd"] = 1;
  EXPECT_EQ(data.open().size(), 6);
  CocoDatasetOptions options = data.options();
  options.keep_empty_frac = 0.5;
  EXPECT_EQ(CocoDataset(options).size(), 8);
  options.filter_empty = false;
  EXPECT_EQ(CocoDataset(options).size(), 10);
  options.min_side = 13;  // tall pictures are 12 wide
  EXPECT_EQ(CocoDataset(options).size(), 5);
}

/// Two pictures whose only objects are a crowd and a box of no size.
DatasetFolder& without_usable_objects(DatasetFolder& data) {
  data.add_pictures(2);
  data.json["annotations"][0]["iscrowd"] = 1;
  data.json["annotations"][1]["bbox"] = {1, 1, 0, 4};
  return data;
}

TEST(FieldReportF79, ATestSetWithoutUsableObjectsLoads) {
  DatasetFolder data;
  CocoDatasetOptions options = without_usable_objects(data).options();
  EXPECT_NE(error_of([&] { CocoDataset{options}; }).find("no usable object is left of 2"),
            std::string::npos);  // for training
  options.filter_empty = false;
  const CocoDataset dataset(options);
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.histogram(), (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(dataset.get(0).instances.at(0).is_crowd);
  data.json["annotations"].clear();
  data.options();
  EXPECT_EQ(CocoDataset(options).size(), 2);
}

TEST(FieldReportF19, ATestSetOfWhichNoObjectHasAListedClassIsRefused) {
  DatasetFolder data;
  data.add_pictures(2);
  data.json["annotations"][1]["category_id"] = 1;  // both "cell"
  CocoDatasetOptions options = data.options();
  options.filter_empty = false;
  options.classes = {"dot"};
  EXPECT_NE(error_of([&] { CocoDataset{options}; }).find("2 class_filtered"), std::string::npos);
}

TEST(CocoDataset, MissingSizesComeFromTheImageFiles) {
  DatasetFolder data;
  data.add_image(1, "a.jpg", test::with_orientation(encoded(".jpg", picture(20, 30)), 6), 0, 0);
  data.json["images"][0].erase("height");
  data.json["images"][0].erase("width");
  data.add_box(1, {15, 25, 10, 10});
  const CocoDataset dataset = data.open();
  EXPECT_EQ(dataset.image_size(0), (ImageSize{30, 20}));
  EXPECT_EQ(dataset.get(0).instances[0].box, (Box{15, 25, 20, 30}));
  EXPECT_EQ(dataset.reports()[0].count(CheckKind::kMissingImageSize), 1);
}

TEST(CocoDataset, ConcatenatesFilesWithEqualClasses) {
  DatasetFolder one, two;
  one.add_pictures(3);
  two.add_pictures(2);
  two.json["categories"] = {{{"id", 1}, {"name", "dot"}},
                            {{"id", 2}, {"name", "cell"}}};  // other ids, same names
  CocoDatasetOptions options = one.options();
  options.files.push_back(two.options().files[0]);
  const CocoDataset dataset(options);
  ASSERT_EQ(dataset.size(), 5);
  EXPECT_EQ(dataset.get(0).instances[0].label, 0);
  EXPECT_EQ(dataset.get(3).instances[0].label, 1);
  EXPECT_EQ(dataset.get(3).path, (two.folder / "p0.png").string());
  EXPECT_EQ(dataset.reports().size(), 2u);
  two.json["categories"][0]["name"] = "other";
  two.options();
  EXPECT_NE(error_of([&] { CocoDataset{options}; }).find("only one has: dot, other"),
            std::string::npos);
}

TEST(CocoDataset, RepeatFactorsFollowClassFrequency) {
  DatasetFolder data;
  data.add_pictures(4);
  for (std::size_t i = 0; i < 4; ++i) {
    data.json["annotations"][i]["category_id"] = i == 3 ? 2 : 1;
  }
  const std::vector<double> factors = data.open().repeat_factors(1.0);
  EXPECT_DOUBLE_EQ(factors[0], std::sqrt(1 / 0.75));
  EXPECT_DOUBLE_EQ(factors[3], 2);
}

TEST(CocoDataset, SkippedImagesAreReplacedDeterministicallyCountedAndCapped) {
  DatasetFolder data;
  data.add_pictures(6);
  files::write_atomic(data.folder / "p1.png", "broken");
  files::write_atomic(data.folder / "p2.png", "broken");
  CocoDatasetOptions options = data.options();
  options.bad_image = CocoDatasetOptions::BadImage::kSkip;
  options.max_bad_images = 2;
  const CocoDataset dataset(options);
  EXPECT_EQ(dataset.get(1).image_id, 13);
  EXPECT_EQ(dataset.get(1).image_id, 13);
  EXPECT_EQ(dataset.get(2).image_id, 13);
  EXPECT_FALSE(dataset.get_or_skip(1).has_value());
  EXPECT_EQ(dataset.bad_images(), 2);
  files::write_atomic(data.folder / "p5.png", "broken");
  const std::string error = error_of([&] { dataset.get(5); });
  EXPECT_NE(error.find("3 images cannot be decoded, more than the 2 allowed"), std::string::npos)
      << error;
  EXPECT_NE(error.find("p5.png"), std::string::npos) << error;
}

TEST(CocoDataset, MasksFollowWhenWanted) {
  DatasetFolder data;
  data.add_pictures(1);
  data.json["annotations"][0]["segmentation"] = {{1, 2, 6, 2, 6, 11}};
  CocoDatasetOptions options = data.options();
  EXPECT_TRUE(CocoDataset(options).get(0).instances[0].segmentation.empty());
  options.keep_segmentation = true;
  EXPECT_EQ(CocoDataset(options).get(0).instances[0].segmentation.polygons[0],
            (std::vector<double>{1, 2, 6, 2, 6, 11}));
}

TEST(CocoDataset, RealPicturesMatchTheirAnnotations) {
  DETFORGE_REQUIRE_TEST_DATA("bccd");
  const std::string root = (test::test_data_dir() / "bccd").string();
  const CocoDataset dataset({.files = {{root + "/annotations/val.json", root + "/images"}}});
  EXPECT_EQ(dataset.size(), 87);
  EXPECT_EQ(dataset.histogram(), (std::vector<std::int64_t>{967, 87, 83}));
  EXPECT_EQ(dataset.get(0).original_size, (ImageSize{480, 640}));
}

}  // namespace
}  // namespace detforge
