#include "detforge/data/write_dataset.h"

#include <cmath>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "data/label_folder.h"
#include "detforge/core/rng.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

using test::DatasetFolder;
using test::encoded;
using test::error_of;
using test::Json;
using test::picture;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kCopy = WriteOptions::Images::kCopy;

struct Loaded {
  CheckReport report;
  std::shared_ptr<const CocoStore> store;
};

Loaded load(AnnotationFormat format, const fs::path& source, const CocoLoadOptions& options = {}) {
  Loaded out;
  out.store = load_annotations(format, source.string(), options, out.report);
  return out;
}

/// Three images, one without objects, one in a folder of its own, and boxes with awkward numbers.
struct Source : DatasetFolder {
  Source() {
    add_image(5, "a.png", encoded(".png", picture(97, 131)), 97, 131);
    add_image(9, "sub/b.png", encoded(".png", picture(40, 30)), 40, 30);
    add_image(7, "empty.png", encoded(".png", picture(20, 20)), 20, 20);
    Rng rng(3, RngPurpose::kTest);
    for (int i = 0; i < 20; ++i) {
      const double x = 60 * rng.uniform(), y = 40 * rng.uniform();
      add_box(5, {x, y, 1 + 60 * rng.uniform(), 0.1 + 50 * rng.uniform()}, 1 + i % 2);
    }
    add_box(9, {0, 0, 30, 40});
    add_box(9, {29, 39, 1, 1}, 2);
  }
  Loaded load_it() {
    files::write_atomic(folder / "gt.json", json.dump());
    return load(AnnotationFormat::kCoco, folder / "gt.json",
                {.image_root = folder.path().string()});
  }
};

/// Same images by name, same classes, boxes and crowds in the same order.
void expect_same(const CocoStore& actual, const CocoStore& expected, double tolerance) {
  std::map<std::string, const CocoImage*> images;
  for (const CocoImage& image : actual.images()) {
    images[fs::path(actual.file_name(image)).replace_extension().string()] = &image;
  }
  ASSERT_EQ(images.size(), expected.images().size());
  for (const CocoImage& image : expected.images()) {
    const std::string name = fs::path(expected.file_name(image)).replace_extension().string();
    ASSERT_TRUE(images.contains(name)) << name;
    const CocoImage& other = *images.at(name);
    EXPECT_EQ(other.size, image.size) << name;
    const auto a = actual.annotations(other), b = expected.annotations(image);
    ASSERT_EQ(a.size(), b.size()) << name;
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(actual.categories()[static_cast<std::size_t>(a[i].category)].name,
                expected.categories()[static_cast<std::size_t>(b[i].category)].name);
      EXPECT_EQ(a[i].is_crowd, b[i].is_crowd);
      for (std::size_t k = 0; k < 4; ++k) {
        EXPECT_NEAR(a[i].box_xywh[k], b[i].box_xywh[k], tolerance) << name << " " << i;
      }
    }
  }
}

struct Target {
  AnnotationFormat format;
  const char* source;  ///< below the output folder
  double tolerance;
};

const Target kTargets[] = {
    {AnnotationFormat::kCoco, "annotations/instances_val.json", 0},
    {AnnotationFormat::kYolo, "val.txt", 2e-6},
    {AnnotationFormat::kYolo, "data.yaml:val", 2e-6},
    {AnnotationFormat::kVoc, "ImageSets/Main/val.txt", 2e-6},
};

TEST(WriteDataset, EveryFormatReadsBackWhatWasWritten) {
  Source data;
  const Loaded original = data.load_it();
  for (const Target& target : kTargets) {
    const TemporaryFolder out;
    const WriteReport written = write_dataset(
        target.format, *original.store, {.output = out.path(), .split = "val", .images = kCopy});
    EXPECT_EQ(written.images, 3);
    EXPECT_EQ(written.objects, 22);
    CocoLoadOptions options;
    if (target.format == AnnotationFormat::kCoco) {
      options.image_root = (out / "val").string();
    }
    const Loaded back = load(target.format, out / target.source, options);
    expect_same(*back.store, *original.store, target.tolerance);
    EXPECT_EQ(back.report.dropped(), 0) << target.source;
    for (const CocoImage& image : back.store->images()) {
      EXPECT_TRUE(fs::is_regular_file(back.store->image_path(image))) << target.source;
    }
  }
}

TEST(WriteDataset, LabelsWithoutTheirImagesAreReadWithTheFolderOfTheImages) {
  Source data;
  const Loaded original = data.load_it();
  for (const Target& target : kTargets) {
    const TemporaryFolder out;
    write_dataset(target.format, *original.store, {.output = out.path(), .split = "val"});
    const Loaded back =
        load(target.format, out / target.source, {.image_root = data.folder.path().string()});
    expect_same(*back.store, *original.store, target.tolerance);
  }
}

TEST(WriteDataset, IntegerVocBoxesAreWithinHalfAPixelAndNeverEmpty) {
  Source data;
  data.add_box(5, {10.2, 20.1, 0.3, 0.3});
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  write_dataset(AnnotationFormat::kVoc, *original.store,
                {.output = out.path(), .images = kCopy, .integer_boxes = true});
  const Loaded back = load(AnnotationFormat::kVoc, out.path());
  expect_same(*back.store, *original.store, 1.0);
  for (const CocoAnnotation& a : back.store->annotations()) {
    EXPECT_EQ(a.box_xywh[0], std::round(a.box_xywh[0]));
    EXPECT_GE(a.box_xywh[2], 1);
  }
}

TEST(WriteDataset, CrowdsAreDifficultInVocAndLeftOutOfYolo) {
  Source data;
  data.json["annotations"][0]["iscrowd"] = 1;
  const Loaded original = data.load_it();
  const TemporaryFolder yolo, voc;
  const WriteReport report =
      write_dataset(AnnotationFormat::kYolo, *original.store, {.output = yolo.path()});
  EXPECT_EQ(report.crowds, 1);
  EXPECT_EQ(report.objects, 21);
  write_dataset(AnnotationFormat::kVoc, *original.store, {.output = voc.path(), .images = kCopy});
  expect_same(*load(AnnotationFormat::kVoc, voc.path()).store, *original.store, 2e-6);
}

TEST(WriteDataset, PolygonsKeepTheirMaskInYoloAndRlesTheirBox) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  data.add_box(1, {10, 10, 20, 20});
  data.json["annotations"][0]["segmentation"] = {{10, 10, 30, 10, 30, 30, 10, 30}};
  data.add_box(1, {5, 5, 50, 40});  // two parts, walked round in different directions
  data.json["annotations"][1]["segmentation"] = {{5, 5, 15, 5, 15, 15, 5, 15},
                                                 {35, 25, 35, 45, 55, 45, 55, 25}};
  data.add_box(1, {0, 0, 2, 60});
  data.json["annotations"][2]["segmentation"] = {{"size", {60, 80}}, {"counts", {0, 120, 4680}}};
  files::write_atomic(data.folder / "gt.json", data.json.dump());
  const Loaded original = load(AnnotationFormat::kCoco, data.folder / "gt.json",
                               {.image_root = data.folder.path().string()});
  const TemporaryFolder out;
  const WriteReport report = write_dataset(AnnotationFormat::kYolo, *original.store,
                                           {.output = out.path(), .images = kCopy, .masks = true});
  EXPECT_EQ(report.masks, 1);
  const Loaded back = load(AnnotationFormat::kYolo, out / "data.yaml");
  const auto annotations = back.store->annotations();
  ASSERT_EQ(annotations.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Segmentation mask = back.store->segmentation(annotations[i]);
    const Segmentation before = original.store->segmentation(original.store->annotations()[i]);
    EXPECT_EQ(segmentation_mask(mask, {60, 80}), segmentation_mask(before, {60, 80})) << i;
  }
  EXPECT_NEAR(annotations[1].area, 100 + 400, 1e-6);
  EXPECT_TRUE(back.store->segmentation(annotations[2]).empty());
  EXPECT_NEAR(annotations[2].box_xywh[3], 60, 1e-6);
  // COCO keeps all three as they are.
  write_dataset(AnnotationFormat::kCoco, *original.store, {.output = out / "all.json"});
  const Loaded coco = load(AnnotationFormat::kCoco, out / "all.json");
  EXPECT_EQ(coco.store->segmentation(coco.store->annotations()[2]).rle.counts,
            (std::vector<std::uint32_t>{0, 120, 4680}));
  EXPECT_EQ(coco.store->segmentation(coco.store->annotations()[1]).polygons.size(), 2u);
}

TEST(WriteDataset, ChosenClassesAreRenumberedAndTheOthersCounted) {
  Source data;
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  const WriteReport report = write_dataset(AnnotationFormat::kCoco, *original.store,
                                           {.output = out / "gt.json", .classes = {"dot"}});
  EXPECT_EQ(report.objects, 11);
  EXPECT_EQ(report.other_classes, 11);
  const Loaded back = load(AnnotationFormat::kCoco, out / "gt.json");
  ASSERT_EQ(back.store->categories().size(), 1u);
  EXPECT_EQ(back.store->categories()[0].id, 1);
  EXPECT_EQ(back.store->categories()[0].name, "dot");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kCoco, *original.store,
                              {.output = out / "x.json", .classes = {"dit"}});
              }),
              HasSubstr("did you mean dot?"));
}

TEST(WriteDataset, ImageSetsShareAFolderOfTheSameClasses) {
  Source data;
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  for (const char* split : {"train", "val"}) {
    write_dataset(AnnotationFormat::kYolo, *original.store,
                  {.output = out.path(), .split = split, .images = kCopy});
  }
  EXPECT_EQ(load(AnnotationFormat::kYolo, out.path()).store->images().size(), 3u);
  EXPECT_EQ(load(AnnotationFormat::kYolo, out / "data.yaml:val").store->images().size(), 3u);
  EXPECT_EQ(files::read(out / "obj.names"), "cell\ndot\n");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kYolo, *original.store,
                              {.output = out.path(), .split = "test", .classes = {"dot", "cell"}});
              }),
              AllOf(HasSubstr("other classes: cell, dot"), HasSubstr("data.yaml")));
}

void expect_no_replacement(const Target& target, WriteOptions options, const CocoStore& store) {
  const TemporaryFolder out;
  options.output = out.path();
  write_dataset(target.format, store, options);
  EXPECT_THAT(error_of([&] { write_dataset(target.format, store, options); }),
              AllOf(HasSubstr("there already"), HasSubstr(out.path().string())));
  options.replace = true;
  EXPECT_EQ(write_dataset(target.format, store, options).objects, 22);
}

TEST(WriteDataset, NothingIsReplacedUnlessWanted) {
  Source data;
  const Loaded original = data.load_it();
  for (const Target& target : kTargets) {
    expect_no_replacement(target, {.split = "val"}, *original.store);
    expect_no_replacement(target, {.split = "val", .images = kCopy}, *original.store);
  }
  const TemporaryFolder out;
  files::write_atomic(out / "labels/val/a.txt", "mine");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kYolo, *original.store,
                              {.output = out.path(), .split = "val"});
              }),
              HasSubstr("labels/val/a.txt"));
  EXPECT_EQ(files::read(out / "labels/val/a.txt"), "mine");
  EXPECT_FALSE(fs::exists(out / "labels/val/empty.txt"));
}

TEST(WriteDataset, NamesThatWouldCollideOrLeaveTheFolderAreHandled) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(6, 8)), 6, 8);
  data.add_image(2, "a.jpg", encoded(".jpg", picture(6, 8)), 6, 8);
  data.add_box(1, {1, 1, 2, 2});
  files::write_atomic(data.folder / "gt.json", data.json.dump());
  const TemporaryFolder out;
  const Loaded original = load(AnnotationFormat::kCoco, data.folder / "gt.json");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kVoc, *original.store, {.output = out.path()});
              }),
              HasSubstr("a.png and a.jpg would both be a"));
  data.json["images"][1]["file_name"] = "../../b.jpg";
  files::write_atomic(data.folder / "gt.json", data.json.dump());
  write_dataset(AnnotationFormat::kVoc,
                *load(AnnotationFormat::kCoco, data.folder / "gt.json").store,
                {.output = out / "in"});
  EXPECT_TRUE(fs::exists(out / "in/Annotations/b.xml"));
}

TEST(WriteDataset, ImageSetsOfVocCannotHaveImagesOfOneName) {
  Source data;
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  WriteOptions options{.output = out.path(), .split = "train"};
  write_dataset(AnnotationFormat::kVoc, *original.store, options);
  options.split = "val";
  options.replace = true;  // this would put the images of val in place of train's
  EXPECT_THAT(error_of([&] { write_dataset(AnnotationFormat::kVoc, *original.store, options); }),
              AllOf(HasSubstr("the image set train has an image a already"),
                    HasSubstr("ImageSets/Main/train.txt")));
}

TEST(WriteDataset, LinksPointToTheImages) {
  Source data;
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  write_dataset(AnnotationFormat::kYolo, *original.store,
                {.output = out.path(), .images = WriteOptions::Images::kLink});
  EXPECT_EQ(fs::read_symlink(out / "images/train/sub/b.png"), data.folder / "sub/b.png");
  fs::remove(data.folder / "a.png");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kVoc, *original.store,
                              {.output = out / "voc", .images = kCopy});
              }),
              AllOf(HasSubstr("cannot copy or link"), HasSubstr("a.png")));
  EXPECT_FALSE(fs::exists(out / "voc/Annotations"));
}

TEST(WriteDataset, ADatasetWrittenIntoItsOwnFolderKeepsItsImages) {
  for (const auto images : {WriteOptions::Images::kCopy, WriteOptions::Images::kLink}) {
    for (const Target& target : kTargets) {
      Source data;
      const Loaded original = data.load_it();
      const TemporaryFolder out;
      WriteOptions options{.output = out.path(), .split = "val", .images = kCopy};
      const WriteReport first = write_dataset(target.format, *original.store, options);
      const fs::path image = first.image_folder / "a.png";
      const std::string pixels = files::read(image);
      options.images = images;
      options.replace = true;
      const Loaded again =
          load(target.format, first.annotations, {.image_root = first.image_folder.string()});
      write_dataset(target.format, *again.store, options);
      EXPECT_FALSE(fs::is_symlink(image));
      EXPECT_EQ(files::read(image) == pixels, true) << image;
    }
  }
}

TEST(WriteDataset, LabelsLieWhereReadersLookAlsoForFoldersCalledImages) {
  DatasetFolder data;
  data.add_image(1, "images/x.png", encoded(".png", picture(80, 100)), 80, 100);
  data.add_box(1, {1, 1, 20, 20});
  files::write_atomic(data.folder / "gt.json", data.json.dump());
  const TemporaryFolder out;
  const WriteReport report = write_dataset(AnnotationFormat::kYolo,
                                           *load(AnnotationFormat::kCoco, data.folder / "gt.json",
                                                 {.image_root = data.folder.path().string()})
                                                .store,
                                           {.output = out.path(), .images = kCopy});
  EXPECT_EQ(load(AnnotationFormat::kYolo, report.annotations).store->annotations().size(), 1U);
}

TEST(WriteDataset, ADataYamlOfAnotherFolderStays) {
  Source data;
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  files::write_atomic(out / "data.yaml", "path: sub\ntrain: images\nnames: [cell, dot]\n");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kYolo, *original.store,
                              {.output = out.path(), .split = "val"});
              }),
              AllOf(HasSubstr("path is sub"), HasSubstr("data.yaml")));
}

TEST(WriteDataset, NamesOfLabelsThatAreThereDoNotChange) {
  Source data;
  const Loaded original = data.load_it();
  const TemporaryFolder out;
  files::write_atomic(out / "obj.names", "other\nnames\n");
  EXPECT_THAT(error_of([&] {
                write_dataset(AnnotationFormat::kYolo, *original.store, {.output = out.path()});
              }),
              AllOf(HasSubstr("other classes"), HasSubstr("obj.names")));
  EXPECT_EQ(files::read(out / "obj.names"), "other\nnames\n");
}

TEST(WriteDataset, RealBloodCellsSurviveARoundTripThroughBothFormats) {
  DETFORGE_REQUIRE_TEST_DATA("bccd");
  const fs::path bccd = test::test_data_dir() / "bccd";
  const Loaded original = load(AnnotationFormat::kCoco, bccd / "annotations/test.json",
                               {.image_root = (bccd / "images").string()});
  const TemporaryFolder out;
  const WriteOptions options{
      .output = out.path(), .split = "test", .images = WriteOptions::Images::kLink};
  write_dataset(AnnotationFormat::kYolo, *original.store, options);
  write_dataset(AnnotationFormat::kVoc, *original.store, options);
  const Loaded yolo = load(AnnotationFormat::kYolo, out / "data.yaml:test");
  const Loaded voc = load(AnnotationFormat::kVoc, fs::path(out.path().string() + ":test"));
  expect_same(*yolo.store, *original.store, 0);  // the boxes are whole pixels
  expect_same(*voc.store, *original.store, 0);
  EXPECT_EQ(yolo.store->annotations().size(), 945u);
  EXPECT_EQ(voc.report.to_text(), "");
}

}  // namespace
}  // namespace detforge
