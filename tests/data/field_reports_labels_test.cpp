// Rows F20 and F21 of FIELD_REPORTS.md, and datasets that were made on Windows.
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "data/label_folder.h"

namespace detforge {
namespace {

using test::LabelFolder;
using test::LoadedLabels;
using test::voc_object;
using test::YoloFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FieldReportF20, OneBadRowCostsThatRowAndNeverTheImage) {
  const LoadedLabels yolo = YoloFolder(
                                "0 0.5 0.5 1.0004 0.2\n"
                                "1 120 40 60 20\n"
                                "0 0.5 0.5 0.5 0.5\n"
                                "0 0.5 0.5 0.5 0.5\n"
                                "0 0.5 0.5 0.5\n"
                                "0 0.5 0.5 0.5 0.5 0.9\n")
                                .load();
  ASSERT_EQ(yolo.store->annotations().size(), 2u);
  const CocoAnnotation& tolerated = yolo.store->annotations()[0];
  EXPECT_TRUE(tolerated.usable);
  EXPECT_EQ(clipped_box(tolerated.box_xywh, {100, 200}), (Box{0, 40, 200, 60}));
  EXPECT_EQ(
      yolo.report.dropped_sentence(),
      "Dropped 4 of 6 annotations: 2 label_columns, 1 box_not_normalised, 1 label_duplicate.");
  EXPECT_THAT(yolo.report.to_text(),
              AllOf(HasSubstr("labels/a.txt, line 2"), HasSubstr("labels/a.txt, line 4"),
                    HasSubstr("labels/a.txt, line 5")));
  EXPECT_THAT(yolo.report.examples(CheckKind::kLabelColumns)[1].detail,
              HasSubstr("6 columns: 5 and a score"));
}

TEST(FieldReportF21, ClassNumbersAreCheckedAgainstTheNames) {
  const YoloFolder data("0 0.5 0.5 0.5 0.5\n3 0.5 0.5 0.5 0.5\n");
  EXPECT_THAT(data.error(),
              AllOf(HasSubstr("class 3, but there are 2 classes: 0 to 1"),
                    HasSubstr("labels/a.txt, line 2"), HasSubstr("class_out_of_range")));
}

TEST(FieldReportF21, TheDataFileIsCheckedAgainstTheNames) {
  LabelFolder data(AnnotationFormat::kYolo);
  data.add_image("a.png", 10, 10);
  data.add("a.txt", "0 0.5 0.5 1 1\n");
  data.add("train.txt", "a.png\n");
  data.add("obj.names", "cell\ndot\n");
  data.add("obj.data", "classes = 3\ntrain = train.txt\nnames = obj.names\n");
  EXPECT_THAT(data.error("obj.data"),
              AllOf(HasSubstr("obj.data says 3 classes"), HasSubstr("obj.names has 2 names")));
  data.add("obj.data", "classes = 2\ntrain = train.txt\nnames = obj.names\n");
  EXPECT_EQ(data.error("obj.data"), "");
}

TEST(FilesFromWindows, ImageListsAndLabelsAreReadAndRepairsAreReported) {
  LabelFolder data(AnnotationFormat::kYolo);
  data.add_image("data/obj/IMG_1.jpg", 10, 20);
  data.add("data/obj/IMG_1.txt",
           "\xEF\xBB\xBF"
           "0 0.5 0.5 1 1\r\n");
  data.add_image("data/obj/img_2.png", 10, 20);
  data.add("data/obj/img_2.txt", "1\t0.5\t0.5\t0.5\t0.5 \r\n");
  data.add_image("data/obj/img_3.png", 10, 20);
  data.add("data/obj/img_3.txt", "0 0.5 0.5 1 1\r\n");
  data.add("data/obj.names",
           "\xEF\xBB\xBF"
           "cell\r\ndot\r\n");
  data.add("data/train.txt",
           "\xEF\xBB\xBF"
           "obj\\IMG_1.JPG\r\n"
           "C:\\Users\\me\\project\\data\\obj\\img_2.png\r\n"
           "obj/img_3.png\r\n\r\n");
  const LoadedLabels yolo = data.load("data/train.txt");
  EXPECT_THAT(yolo.file_names(), ElementsAre("IMG_1.jpg", "img_2.png", "img_3.png"));
  EXPECT_THAT(yolo.classes(), ElementsAre("cell", "dot", "cell"));
  EXPECT_EQ(yolo.count(CheckKind::kPathRepaired), 2);
  EXPECT_THAT(yolo.report.to_text(), HasSubstr("obj\\IMG_1.JPG: found as "));
  data.policy.set("path_repaired", "error");
  EXPECT_THAT(data.error("data/train.txt"), HasSubstr("path_repaired"));
}

TEST(FilesFromWindows, AListInUtf16SaysHowToConvertIt) {
  LabelFolder data(AnnotationFormat::kYolo);
  data.add("train.txt", std::string("\xFF\xFE"
                                    "a\0.\0p\0n\0g\0",
                                    12));
  EXPECT_THAT(data.error("train.txt"), AllOf(HasSubstr("train.txt"), HasSubstr("UTF-16")));
}

TEST(FilesFromWindows, VocFilesWithBackslashesAndOtherEncodings) {
  LabelFolder data(AnnotationFormat::kVoc);
  data.add_image("one.png", 10, 20);
  data.add("label1.xml",
           "\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<annotation>\r\n"
           "<filename>ONE.PNG</filename>\r\n<path>D:\\data\\ONE.PNG</path>\r\n" +
               voc_object("cell", {1, 1, 9, 9}) + "\r\n</annotation>\r\n");
  data.add_image("two.png", 10, 20);
  data.add("label2.xml", "<annotation><path>D:\\data\\two.png</path>" +
                             voc_object("dot", {1, 1, 9, 9}) + "</annotation>");
  const LoadedLabels voc = data.load("");
  EXPECT_THAT(voc.file_names(), ElementsAre("one.png", "two.png"));
  EXPECT_THAT(voc.classes(), ElementsAre("cell", "dot"));
}

}  // namespace
}  // namespace detforge
