#include "detforge/data/voc_reader.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "data/label_folder.h"
#include "detforge/data/voc_xml.h"

namespace detforge {
namespace {

using test::LabelFolder;
using test::LoadedLabels;
using test::voc_object;
using test::voc_size;
using test::VocFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Boxes = std::vector<std::array<double, 4>>;

TEST(VocXml, ReadsNamesCornersAndFlags) {
  const VocAnnotation a = parse_voc_xml(
      "<?xml version=\"1.0\"?>\n<annotation><folder>x</folder>"
      "<filename> C:\\pictures\\my photo.jpg </filename>" +
      voc_size(100, 200) +
      voc_object("red cell", {1, 2, 30.5, 40},
                 "<difficult>1</difficult><truncated>1</truncated>"
                 "<part><name>head</name><bndbox><xmin>5</xmin>"
                 "</bndbox></part>") +
      "<object><bndbox><ymax>4</ymax><xmax>3</xmax><ymin>2</ymin><xmin>1</xmin></bndbox>"
      "<name>dot</name></object></annotation>");
  EXPECT_EQ(a.file_name, "my photo.jpg");
  EXPECT_EQ(a.size, (ImageSize{100, 200}));
  ASSERT_EQ(a.objects.size(), 2u);
  EXPECT_EQ(a.objects[0].name, "red cell");
  EXPECT_TRUE(a.objects[0].is_difficult);
  EXPECT_THAT(a.objects[0].corners, ElementsAre(1, 2, 30.5, 40));
  EXPECT_EQ(a.objects[1].name, "dot");
  EXPECT_FALSE(a.objects[1].is_difficult);
  EXPECT_THAT(a.objects[1].corners, ElementsAre(1, 2, 3, 4));
}

TEST(VocXml, ReadsTheEncodingsItSaysAndNamesTheOthers) {
  const auto name_of = [](const std::string& bytes) {
    return parse_voc_xml(bytes).objects.at(0).name;
  };
  const auto file = [](const std::string& head, const std::string& name) {
    return head + "<annotation>" + voc_object(name, {1, 1, 2, 2}) + "</annotation>";
  };
  EXPECT_EQ(name_of(file("\xEF\xBB\xBF", "z\xC3\xA4hler")), "z\xC3\xA4hler");
  EXPECT_EQ(name_of(file("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>", "z\xE4hler")),
            "z\xC3\xA4hler");
  std::string utf16 = "\xFF\xFE";
  for (const char c : file("", "cell")) {
    utf16 += {c, '\0'};
  }
  EXPECT_EQ(name_of(utf16), "cell");
  const std::string gbk = file("<?xml version=\"1.0\" encoding=\"GBK\"?>", "\xCF\xB8\xB0\xFB");
  EXPECT_THAT(test::error_of([&] { parse_voc_xml(gbk); }),
              AllOf(HasSubstr("encoding=\"GBK\""), HasSubstr("iconv")));
}

TEST(VocXml, BrokenFilesAreRefusedWithTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"<annotation>\n<object>\n<name>ce", "broken XML at line 3"},
      {"", "broken XML at line 1"},
      {"<html></html>", "no <annotation>"},
      {"<annotation><a></b></annotation>", "broken XML"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(test::error_of([&] { parse_voc_xml(text); }), HasSubstr(message)) << text;
  }
}

TEST(VocReader, PixelsFromOneWithBothEndsBecomeContinuousBoxes) {
  // Pixels 1..10 of a row are [0, 10]; the single pixel 5 is [4, 5].
  VocFolder data(voc_size(100, 200) + voc_object("dot", {1, 1, 10, 20}) +
                 voc_object("cell", {5, 7, 5, 7}) + voc_object("cell", {1, 1, 200, 100}));
  const LoadedLabels voc = data.load();
  EXPECT_EQ(voc.boxes(), (Boxes{{0, 0, 10, 20}, {4, 6, 1, 1}, {0, 0, 200, 100}}));
  EXPECT_THAT(voc.classes(), ElementsAre("dot", "cell", "cell"));
  EXPECT_EQ(voc.store->categories()[0].name, "cell");  // sorted
  EXPECT_EQ(voc.report.to_text(), "");
  data.options.voc.one_based = false;
  EXPECT_EQ(data.load().boxes()[0], (std::array<double, 4>{1, 1, 9, 19}));
}

TEST(VocReader, DifficultObjectsAreCrowdsUnlessWanted) {
  VocFolder data(voc_object("cell", {1, 1, 9, 9}, "<difficult>1</difficult>") +
                 voc_object("cell", {1, 1, 8, 8}, "<difficult>0</difficult>"));
  EXPECT_TRUE(data.load().store->annotations()[0].is_crowd);
  EXPECT_FALSE(data.load().store->annotations()[1].is_crowd);
  data.options.voc.ignore_difficult = false;
  EXPECT_FALSE(data.load().store->annotations()[0].is_crowd);
}

TEST(VocReader, ReadsRootsSetsAndFolders) {
  VocFolder data(voc_object("cell", {1, 1, 9, 9}));
  data.add_image("JPEGImages/my photo 1.png", 50, 60);
  data.add_xml("my photo 1", voc_object("dot", {1, 1, 9, 9}));
  data.add("ImageSets/Main/train.txt", "my photo 1\r\na\r\n");
  data.add("ImageSets/Main/val.txt", "a\n");
  data.add("ImageSets/Main/dot_val.txt", "a -1\nmy photo 1  1\n");
  EXPECT_THAT(data.load().file_names(), ElementsAre("my photo 1.png", "a.png"));
  EXPECT_THAT(data.LabelFolder::load("ImageSets/Main/val.txt").file_names(), ElementsAre("a.png"));
  EXPECT_THAT(data.LabelFolder::load("ImageSets/Main/dot_val.txt").file_names(),
              ElementsAre("a.png", "my photo 1.png"));
  EXPECT_THAT(data.LabelFolder::error(":test"),
              AllOf(HasSubstr("no image set \"test\""), HasSubstr("dot_val, train, val")));
  EXPECT_EQ(data.LabelFolder::error(":val"), "");
  std::filesystem::remove_all(data.folder / "ImageSets");
  EXPECT_THAT(data.load().file_names(), ElementsAre("a.png", "my photo 1.png"));
  LabelFolder flat(AnnotationFormat::kVoc);
  flat.add_image("x.png", 10, 10);
  flat.add("x.xml", "<annotation>" + voc_object("cell", {1, 1, 9, 9}) + "</annotation>");
  EXPECT_THAT(flat.load("").file_names(), ElementsAre("x.png"));
  EXPECT_THAT(flat.error("nowhere"), HasSubstr("nowhere is no VOC dataset"));
}

TEST(VocReader, ClassesAreTheGivenOnesThenTheOthers) {
  VocFolder data(voc_object("b", {1, 1, 9, 9}) + voc_object("a", {1, 1, 9, 9}) +
                 voc_object("c", {1, 1, 9, 9}));
  data.options.class_names = {"c", "z"};
  std::vector<std::string> names;
  const LoadedLabels voc = data.load();
  for (const CocoCategory& category : voc.store->categories()) {
    names.push_back(category.name);
  }
  EXPECT_THAT(names, ElementsAre("c", "z", "a", "b"));
  EXPECT_EQ(voc.count(CheckKind::kClassNotInFile), 1);
}

TEST(VocReader, EachKindOfBadObjectIsCountedDroppedOrRefusedNamingFileAndNumber) {
  using enum CheckKind;
  struct Case {
    std::string xml;
    CheckKind kind;
    std::size_t left;
    const char* error = "";
  };
  const std::string good = voc_object("cell", {1, 1, 9, 9});
  const Case cases[] = {
      {good + "<object><name>cell</name></object>", kBoxMissing, 1},
      {good + voc_object("cell", {1, 1, 9, 9}), kLabelDuplicate, 1},
      {good + voc_object("cell", {0, 0, 9, 9}), kBoxesLookZeroBased, 2},
      {good + voc_object("cell", {190, 1, 210, 9}), kBoxClipped, 2},
      {good + voc_object("cell", {300, 1, 310, 9}), kBoxOutside, 2},
      {voc_size(100, 200) + good + "<object><name> </name></object>", kLabelMalformed, 0,
       "a.xml, object 2"},
      {good + voc_object("cell", {50, 50, 20, 60}), kBoxNegativeSize, 0, "a.xml, object 2"},
      {"<object><name>cell</name><bndbox><xmin>1</xmin><ymin>x</ymin><xmax>3</xmax><ymax>4</ymax>"
       "</bndbox></object>",
       kBoxMalformed, 0, "ymin is \"x\""},
      {"<object><name>cell</name><bndbox><xmin>1</xmin><xmax>3</xmax><ymax>4</ymax></bndbox>"
       "</object>",
       kBoxMalformed, 0, "bndbox has no ymin"},
  };
  for (const Case& c : cases) {
    const VocFolder data(c.xml);
    if (c.error[0] != '\0') {
      EXPECT_THAT(data.error(),
                  AllOf(HasSubstr(c.error), HasSubstr(std::string(check_name(c.kind)))));
      continue;
    }
    const LoadedLabels voc = data.load();
    EXPECT_EQ(voc.count(c.kind), 1) << c.xml;
    EXPECT_EQ(voc.boxes().size(), c.left) << c.xml;
    EXPECT_THAT(voc.report.to_text(), HasSubstr("a.xml, object ")) << c.xml;
  }
}

TEST(VocReader, SizesComeFromTheImageAndDifferencesAreCounted) {
  const std::string box = voc_object("cell", {1, 1, 9, 9});
  const LoadedLabels missing = VocFolder("<size><width>0</width></size>" + box).load();
  EXPECT_EQ(missing.count(CheckKind::kLabelSizeDiffers), 0);
  EXPECT_EQ(missing.count(CheckKind::kMissingImageSize), 1);
  const LoadedLabels other = VocFolder(voc_size(100, 300) + box).load();
  EXPECT_EQ(other.count(CheckKind::kLabelSizeDiffers), 1);
  EXPECT_EQ(other.store->images()[0].size, (ImageSize{100, 200}));
  VocFolder swapped(voc_size(200, 100) + box);
  EXPECT_THAT(swapped.error(), AllOf(HasSubstr("image_size_swapped"), HasSubstr("a.xml"),
                                     HasSubstr("the XML says 100 x 200")));
}

TEST(VocReader, APictureAnnotatedUnturnedCanBeReadUnturned) {
  LabelFolder data(AnnotationFormat::kVoc);
  data.add("a.jpg", test::with_orientation(test::encoded(".jpg", test::picture(40, 100)), 6));
  data.add("a.xml", "<annotation>" + voc_size(40, 100) + voc_object("cell", {91, 1, 100, 40}) +
                        "</annotation>");
  EXPECT_THAT(data.error(""), HasSubstr("image_size_swapped"));
  CocoDatasetOptions options{
      .files = {{.json = data.path(""), .image_root = "", .format = AnnotationFormat::kVoc}}};
  options.policy.set("image_size_swapped", "fix");
  const Sample sample = CocoDataset(options).get(0);
  EXPECT_EQ(sample.original_size, (ImageSize{40, 100}));
  EXPECT_EQ(sample.instances.at(0).box, (Box{90, 0, 100, 40}));
}

TEST(VocReader, MissingFilesAreNamed) {
  VocFolder data(voc_object("cell", {1, 1, 9, 9}));
  data.add_image("JPEGImages/b.png", 10, 10);
  data.add("ImageSets/Main/train.txt", "a\nb\n");
  data.add_xml("lost", voc_object("cell", {1, 1, 9, 9}));
  const LoadedLabels voc = data.load();
  EXPECT_EQ(voc.count(CheckKind::kLabelFileMissing), 1);
  EXPECT_EQ(voc.count(CheckKind::kLabelWithoutImage), 1);
  EXPECT_EQ(voc.store->images().size(), 2u);
  data.add("ImageSets/Main/train.txt", "a\nlost\n");
  EXPECT_THAT(data.error(), AllOf(HasSubstr("image_unreadable"), HasSubstr("lost.xml")));
  data.add("ImageSets/Main/train.txt", "nothing\n");
  EXPECT_THAT(data.error(), HasSubstr("none of the 1 images has an XML file"));
  data.add("ImageSets/Main/train.txt", "a\nbroken\n");
  data.add("Annotations/broken.xml", "<annotation><object>");
  EXPECT_THAT(data.error(), AllOf(HasSubstr("broken.xml"), HasSubstr("broken XML at line 1")));
  data.policy.set("label_file_unreadable", "drop");
  EXPECT_EQ(data.load().store->images().size(), 1u);
}

TEST(VocReader, FindsImagesByFileNameWhenTheIdDoesNotSay) {
  VocFolder data("<filename>D:\\set\\Photo.PNG</filename>" + voc_object("cell", {1, 1, 9, 9}));
  std::filesystem::rename(data.folder / "JPEGImages/a.png", data.folder / "JPEGImages/photo.png");
  const LoadedLabels voc = data.load();
  EXPECT_THAT(voc.file_names(), ElementsAre("photo.png"));
  EXPECT_EQ(voc.count(CheckKind::kPathRepaired), 1);
  EXPECT_EQ(voc.count(CheckKind::kLabelWithoutImage), 0);
}

}  // namespace
}  // namespace detforge
