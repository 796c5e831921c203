#include "detforge/data/yolo_reader.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "data/label_folder.h"
#include "detforge/data/yolo_source.h"

namespace detforge {
namespace {

using test::LabelFolder;
using test::LoadedLabels;
using test::YoloFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Boxes = std::vector<std::array<double, 4>>;

TEST(YoloReader, PutsRowsIntoCocosTables) {
  // 0.5 of 200 is 100, 0.25 of 100 is 25; the size is 40 x 10, so the corner is (80, 20).
  const LoadedLabels yolo = YoloFolder("1 0.5 0.25 0.2 0.1\n0 0 0 0.5 0 0.5 1\n").load();
  EXPECT_EQ(yolo.boxes(), (Boxes{{80, 20, 40, 10}, {0, 0, 100, 100}}));
  EXPECT_THAT(yolo.classes(), ElementsAre("dot", "cell"));
  EXPECT_THAT(yolo.file_names(), ElementsAre("a.png"));
  const CocoImage& image = yolo.store->images()[0];
  EXPECT_EQ(image.id, 1);
  EXPECT_EQ(image.size, (ImageSize{100, 200}));
  const auto annotations = yolo.store->annotations();
  EXPECT_EQ(annotations[0].id, 1);
  EXPECT_EQ(annotations[0].area, 400);
  EXPECT_EQ(annotations[0].category_id, 2);
  EXPECT_TRUE(yolo.store->segmentation(annotations[0]).empty());
  EXPECT_EQ(annotations[1].area, 5000);  // the triangle, not its box
  EXPECT_THAT(yolo.store->segmentation(annotations[1]).polygons,
              ElementsAre(ElementsAre(0, 0, 100, 0, 100, 100)));
  EXPECT_EQ(yolo.report.to_text(), "");
}

TEST(YoloReader, ServesADatasetLikeAnyOther) {
  YoloFolder data("1 0.5 0.25 0.2 0.1\n");
  data.add_image("images/b.png", 50, 60);
  data.add_image("images/sub/c.png", 50, 60);
  data.add("labels/sub/c.txt", "0 0.5 0.5 1 1\n");
  const CocoDataset dataset({.files = {{.json = data.path("images"),
                                        .image_root = "",
                                        .format = AnnotationFormat::kYolo}},
                             .filter_empty = false});
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_THAT(dataset.class_names(), ElementsAre("cell", "dot"));
  EXPECT_EQ(dataset.get(0).instances[0].box, (Box{80, 20, 120, 30}));
  EXPECT_EQ(dataset.get(1).instances.size(), 0u);
  EXPECT_EQ(dataset.get(2).instances[0].label, 0);
  EXPECT_EQ(dataset.path(2), data.path("images/sub/c.png"));
  EXPECT_EQ(dataset.file_name(2), "sub/c.png");
  EXPECT_EQ(dataset.reports()[0].count(CheckKind::kLabelFileMissing), 1);
}

TEST(YoloReader, LooksForLabelsWhereTheToolsDo) {
  EXPECT_THAT(label_candidates("/d/images/train/a.b.jpg"),
              ElementsAre("/d/labels/train/a.b.txt", "/d/images/train/a.b.txt"));
  EXPECT_THAT(label_candidates("images/images/a.jpg"),
              ElementsAre("images/labels/a.txt", "images/images/a.txt"));
  EXPECT_THAT(label_candidates("VOC/JPEGImages/a.jpg"),
              ElementsAre("VOC/labels/a.txt", "VOC/JPEGImages/a.txt"));
  EXPECT_THAT(label_candidates("obj/a.jpg"), ElementsAre("obj/a.txt"));
  EXPECT_THAT(label_candidates("images.jpg"), ElementsAre("images.txt"));
}

TEST(YoloReader, ImagesThatCannotBeReadAreLeftOutWhereBadImagesAreSkipped) {
  YoloFolder data("1 0.5 0.25 0.2 0.1\n");
  data.add("images/b.png", "no image");
  CocoDatasetOptions options{
      .files = {{.json = data.path("images"), .image_root = "", .format = AnnotationFormat::kYolo}},
      .filter_empty = false};
  EXPECT_THAT(test::error_of([&] { CocoDataset{options}; }), HasSubstr("images/b.png"));
  options.bad_image = CocoDatasetOptions::BadImage::kSkip;
  EXPECT_EQ(CocoDataset(options).size(), 1);
}

/// Two images with labels beside them, in data/obj.
struct DarknetFolder : LabelFolder {
  DarknetFolder() : LabelFolder(AnnotationFormat::kYolo) {
    add_image("data/obj/b.png", 10, 20);
    add("data/obj/b.txt", "0 0.5 0.5 1 1\n");
    add_image("data/obj/a.png", 10, 20);
    add("data/obj/a.txt", "1 0.5 0.5 0.5 0.5\n");
    add("data/obj.names", "cell\ndot\n");
    add("data/train.txt", "data/obj/b.png\ndata/obj/a.png\n");
    add("data/valid.txt", "obj/a.png\n");
    add("data/obj.data",
        "classes = 2\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names\n");
  }
};

TEST(YoloReader, ReadsDarknetsDataFileFromAnyWorkingDirectory) {
  const DarknetFolder data;
  const LoadedLabels train = data.load("data/obj.data");
  EXPECT_THAT(train.file_names(), ElementsAre("b.png", "a.png"));  // the list's order
  EXPECT_THAT(train.classes(), ElementsAre("cell", "dot"));
  EXPECT_THAT(data.load("data/obj.data:valid").file_names(), ElementsAre("a.png"));
  EXPECT_THAT(data.load("data/obj.data:val").file_names(), ElementsAre("a.png"));
  EXPECT_THAT(data.error("data/obj.data:test"),
              AllOf(HasSubstr("no image set \"test\""), HasSubstr("train, valid")));
}

TEST(YoloReader, ReadsListsWhosePathsAreRelativeToTheListOrToAFolder) {
  DarknetFolder data;
  EXPECT_THAT(data.load("data/valid.txt").file_names(), ElementsAre("a.png"));
  // data/obj/b.png is obj/b.png beside the list: found, but that is said.
  EXPECT_EQ(data.load("data/train.txt").count(CheckKind::kPathRepaired), 2);
  data.add("data/train.txt", "data/obj/b.png\ndata/obj/a.png\nlost.png\n");
  EXPECT_THAT(data.error("data/train.txt"),
              AllOf(HasSubstr("image_unreadable"), HasSubstr("lost.png")));
  data.policy.set("image_unreadable", "drop");
  data.options.image_root = data.folder.path().string();
  const LoadedLabels train = data.load("data/train.txt");
  EXPECT_THAT(train.file_names(), ElementsAre("data/obj/b.png", "data/obj/a.png"));
  EXPECT_EQ(train.store->image_root(), data.folder.path().string());
}

TEST(YoloReader, ReadsDataYamlWithEveryWayToSayTheRoot) {
  YoloFolder data("0 0.5 0.5 1 1\n");
  for (const std::string yaml :
       {"train: images", "path: .\ntrain: images", "path: \ntrain: ../images", "train: ../images",
        "train: [images]", "path: /nowhere\ntrain: images"}) {
    data.add("data.yaml", yaml + "\nnames: [x, y]\n");
    EXPECT_THAT(data.LabelFolder::load("data.yaml").classes(), ElementsAre("x")) << yaml;
    EXPECT_THAT(data.LabelFolder::load("").classes(), ElementsAre("x")) << yaml;
  }
  data.add("data.yaml", "train: images\nvalid: images\nnames: [x, y]\n");
  EXPECT_THAT(data.LabelFolder::load("data.yaml:val").classes(), ElementsAre("x"));
  EXPECT_THAT(data.LabelFolder::error("data.yaml:test"), HasSubstr("train, valid"));
  for (const char* windows : {"train: .\\images", "train: 'D:\\data\\set\\images'"}) {
    data.add("data.yaml", std::string(windows) + "\nnames: [x, y]\n");
    EXPECT_THAT(data.LabelFolder::load("data.yaml").classes(), ElementsAre("x")) << windows;
  }
  data.add("data.yaml", "train: lost\nnames: [x, y]\n");
  EXPECT_THAT(data.LabelFolder::error("data.yaml"),
              AllOf(HasSubstr("\"lost\" of train is not there"), HasSubstr("data.yaml")));
}

TEST(YoloReader, NeedsClassNamesFromSomewhere) {
  LabelFolder data(AnnotationFormat::kYolo);
  data.add_image("a.png", 10, 20);
  data.add("a.txt", "1 0.5 0.5 1 1\n");
  EXPECT_THAT(data.error(""), AllOf(HasSubstr("have no names"), HasSubstr("classes.txt")));
  data.options.class_names = {"cell", "dot"};
  EXPECT_THAT(data.load("").classes(), ElementsAre("dot"));
  data.add("classes.txt", "x\ny\nz\n");
  EXPECT_THAT(data.load("").classes(), ElementsAre("y"));
}

/// A label file of class cell / dot in an image of 100 x 200 and what must come of it.
struct RowCase {
  const char* rows;
  CheckKind kind;
  std::int64_t count;
  Boxes boxes;             ///< that are left under the default policy
  const char* error = "";  ///< in the message, where the default policy refuses the file
};

TEST(YoloReader, EachKindOfBadRowIsCountedDroppedOrRefusedNamingFileAndLine) {
  using enum CheckKind;
  const RowCase cases[] = {
      {"0 0.5 0.5 0.5\n1 0.5 0.5 0.5 0.5", kLabelColumns, 1, {{50, 25, 100, 50}}},
      {"0 0.5 0.5 0.5 0.5 0.9\n", kLabelColumns, 1, {}},
      {"0 0.5 0.5 1.5 0.5\n", kBoxNotNormalised, 1, {}},
      {"0 -0.2 0.5 0.5 0.5\n", kBoxNotNormalised, 1, {}},
      {"0 0.1 0.1 0.2 0.1 1.2 0.9\n", kBoxNotNormalised, 1, {}},
      {"0 0.5 0.5 0.5 0.5\n0 0.5 0.5 0.5 0.5\n1 0.5 0.5 0.5 0.5\n",
       kLabelDuplicate,
       1,
       {{50, 25, 100, 50}, {50, 25, 100, 50}}},
      {"0 0.5 0.5 0 0.5\n", kBoxZeroSize, 1, {{100, 25, 0, 50}}},
      {"0 0.5 0.5 nan 0.5\n", kBoxNotFinite, 1, {{}}},
      {"0 1.0 0.5 0.5 0.5\n", kBoxClipped, 1, {{150, 25, 100, 50}}},
      {"0 0.1 0.1 0.2 0.2 0.3 0.3\n", kMaskInvalid, 1, {{20, 10, 40, 20}}},
      {"0 0.5 0.5 -0.5 0.5\n", kBoxNegativeSize, 1, {}, "labels/a.txt, line 1"},
      {"\n2 0.5 0.5 0.5 0.5\n",
       kClassOutOfRange,
       1,
       {},
       "class 2, but there are 2 classes: 0 to 1"},
      {"0 0.5 0.5 0.5 0.5\n-1 0.5 0.5 0.5 0.5\n", kClassOutOfRange, 1, {}, "labels/a.txt, line 2"},
      {"0 0.5 0.5 0.5 0.5\n\n0 0,5 0,5 0,5 0,5\n", kLabelMalformed, 1, {}, "labels/a.txt, line 3"},
      {"0 10 20 30 40\n0 11 21 31 41\n1 12 22 32 42\n0 .5 .5 .5 .5\n",
       kBoxesLookLikePixels,
       1,
       {},
       "3 of 4 rows have values above 2"},
      {"1 .5 .5 .5 .5\n2 .5 .5 .5 .5\n", kClassesLookOneBased, 1, {}, "go from 1 to 2, none is 0"},
  };
  for (const RowCase& c : cases) {
    const YoloFolder data(c.rows);
    if (c.error[0] != '\0') {
      EXPECT_THAT(data.error(),
                  AllOf(HasSubstr(c.error), HasSubstr(std::string(check_name(c.kind)))))
          << c.rows;
      continue;
    }
    const LoadedLabels yolo = data.load();
    EXPECT_EQ(yolo.count(c.kind), c.count) << c.rows;
    EXPECT_THAT(yolo.report.to_text(), HasSubstr("labels/a.txt, line ")) << c.rows;
    if (c.kind != kBoxNotFinite) {
      EXPECT_EQ(yolo.boxes(), c.boxes) << c.rows;
    }
  }
}

TEST(YoloReader, TotalsAndTheSentenceCountRowsThatWereLeftOut) {
  const LoadedLabels yolo =
      YoloFolder("0 .5 .5 .5 .5\n0 .5 .5 .5 .5\n0 .5 .5 .5\n1 .5 .5 0 .5\n").load();
  EXPECT_EQ(yolo.report.dropped_sentence(),
            "Dropped 3 of 4 annotations: 1 label_columns, 1 label_duplicate, 1 box_zero_size.");
  EXPECT_EQ(yolo.report.images(), 1);
}

TEST(YoloReader, PoliciesChangeWhatIsDone) {
  YoloFolder data("1 .5 .5 .5 .5\n2 .5 .5 .5 .5\n2 .5 .5 .5 .5\n");
  data.policy.set("classes_look_one_based", "fix");
  data.policy.set("label_duplicate", "fix");
  EXPECT_THAT(data.load().classes(), ElementsAre("cell", "dot", "dot"));
  YoloFolder validation("1 .5 .5 .5 .5\n");  // of the same numbering, without class 2
  validation.policy.set("classes_look_one_based", "fix");
  EXPECT_THAT(validation.load().classes(), ElementsAre("cell"));
  data.policy.set("label_duplicate", "error");
  EXPECT_THAT(data.error(), HasSubstr("label_duplicate"));
  YoloFolder strange("0 0.5 0.5 1 1\n7 0.5 0.5 1 1\nx 1 1 1 1\n");
  strange.policy.set("class_out_of_range", "drop");
  strange.policy.set("label_malformed", "drop");
  EXPECT_THAT(strange.load().classes(), ElementsAre("cell"));
}

TEST(YoloReader, EachKindOfBadImageOrFileIsNamed) {
  YoloFolder data("0 0.5 0.5 1 1\n");
  data.add_image("images/b.png", 10, 10);
  data.add("labels/lost.txt", "0 0.5 0.5 1 1\n");
  data.add("labels/notes.txt", "checked on Monday\n");
  const LoadedLabels yolo = data.load();
  EXPECT_EQ(yolo.count(CheckKind::kLabelFileMissing), 1);
  EXPECT_EQ(yolo.count(CheckKind::kLabelWithoutImage), 1);
  EXPECT_THAT(yolo.report.to_text(), HasSubstr("labels/lost.txt: no image is called lost"));
  data.add("images/c.png", "<html>404</html>");
  EXPECT_THAT(data.error(), AllOf(HasSubstr("images/c.png"), HasSubstr("an HTML page")));
  data.policy.set("image_unreadable", "drop");
  EXPECT_EQ(data.load().store->images().size(), 2u);
  data.add("labels/b.txt", std::string("\xFF\xFE"
                                       "0\0 \0",
                                       6));
  EXPECT_THAT(data.error(), AllOf(HasSubstr("labels/b.txt"), HasSubstr("UTF-16")));
  data.policy.set("label_file_unreadable", "drop");
  EXPECT_EQ(data.load().store->images().size(), 1u);
}

TEST(YoloReader, ListsMayRepeatImagesWhenAllowed) {
  YoloFolder data("0 0.5 0.5 1 1\n");
  data.add("train.txt", "images/a.png\nimages/a.png\n./images/a.png\n");
  const LoadedLabels yolo = data.LabelFolder::load("train.txt");
  EXPECT_EQ(yolo.count(CheckKind::kImageListedTwice), 2);
  EXPECT_EQ(yolo.store->images().size(), 1u);
  data.policy.set("image_listed_twice", "fix");
  EXPECT_EQ(data.LabelFolder::load("train.txt").store->images().size(), 3u);
}

TEST(YoloReader, SourcesThatAreNoneSayWhatIsExpected) {
  YoloFolder data("0 0.5 0.5 1 1\n");
  EXPECT_THAT(data.LabelFolder::error("nothing.txt"), HasSubstr("nothing.txt"));
  data.add("empty.txt", "\r\n");
  EXPECT_THAT(data.LabelFolder::error("empty.txt"), HasSubstr("there is no image in"));
  std::filesystem::remove_all(data.folder / "labels");
  EXPECT_THAT(data.error(), AllOf(HasSubstr("none of the 1 images has a label file"),
                                  HasSubstr("labels/a.txt, ")));
}

}  // namespace
}  // namespace detforge
