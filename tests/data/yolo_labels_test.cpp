#include "detforge/data/yolo_labels.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "data/coco_files.h"
#include "detforge/data/class_names.h"
#include "detforge/data/text_file.h"

namespace detforge {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(YoloLabels, ReadsBoxesAndPolygonsWithTheirLines) {
  const auto rows = parse_yolo_labels("3 0.5 0.25 0.2 0.1\n\n0 0 0 1 0 1 1\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_EQ(rows[0].label, 3);
  EXPECT_THAT(rows[0].box_cxcywh, ElementsAre(0.5, 0.25, 0.2, 0.1));
  EXPECT_TRUE(rows[0].polygon.empty());
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_THAT(rows[1].polygon, ElementsAre(0, 0, 1, 0, 1, 1));
}

TEST(YoloLabels, TheSameRowInEveryDressIsTheSame) {
  for (const std::string text :
       {"1 0.5 0.25 0.2 0.1", "1 0.5 0.25 0.2 0.1\n", "1 0.5 0.25 0.2 0.1\r\n",
        "1 0.5 0.25 0.2 0.1\r",
        "\xEF\xBB\xBF"
        "1 0.5 0.25 0.2 0.1",
        "1\t0.5\t0.25\t0.2\t0.1", "  1  0.5 0.25 0.2 0.1 \t ", "1.0 +.5 2.5e-1 2E-1 0.10000",
        "\r\n\r\n1 0.5 0.25 0.2 0.1\r\n\r\n"}) {
    const auto rows = parse_yolo_labels(text);
    ASSERT_EQ(rows.size(), 1u) << text;
    EXPECT_EQ(rows[0].fault, YoloRow::Fault::kNone) << text << rows[0].detail;
    EXPECT_EQ(rows[0].label, 1) << text;
    EXPECT_THAT(rows[0].box_cxcywh, ElementsAre(0.5, 0.25, 0.2, 0.1)) << text;
  }
}

TEST(YoloLabels, SaysWhatIsWrongWithARow) {
  struct Case {
    const char* row;
    YoloRow::Fault fault;
    const char* detail;
  };
  const Case cases[] = {
      {"0 0.5 0.5 0.2", YoloRow::Fault::kColumns, "4 columns"},
      {"0 0.5 0.5 0.2 0.1 0.9", YoloRow::Fault::kColumns, "6 columns: 5 and a score"},
      {"0", YoloRow::Fault::kColumns, "1 column"},
      {"0 0.1 0.1 0.2 0.2 0.3 0.3 0.4", YoloRow::Fault::kColumns, "8 columns"},
      {"0 0,5 0,5 0,2 0,1", YoloRow::Fault::kMalformed,
       "\"0,5\" is not a number; it has a decimal"},
      {"0,0.5,0.5,0.2,0.1", YoloRow::Fault::kMalformed, "commas for spaces"},
      {"cell 0.5 0.5 0.2 0.1", YoloRow::Fault::kMalformed, "\"cell\" is not a number"},
      {"0 0.5 0.5 0.2 0.1x", YoloRow::Fault::kMalformed, "\"0.1x\" is not a number"},
      {"0 0.5 0.5 0.2 1e999", YoloRow::Fault::kMalformed, "\"1e999\" is not a number"},
      {"0.5 0.5 0.5 0.2 0.1", YoloRow::Fault::kMalformed, "the class is 0.5, not a whole number"},
      {"nan 0.5 0.5 0.2 0.1", YoloRow::Fault::kMalformed, "the class is nan"},
  };
  for (const Case& c : cases) {
    const auto rows = parse_yolo_labels(c.row);
    ASSERT_EQ(rows.size(), 1u) << c.row;
    EXPECT_EQ(rows[0].fault, c.fault) << c.row;
    EXPECT_THAT(rows[0].detail, HasSubstr(c.detail)) << c.row;
  }
}

TEST(YoloLabels, Utf16AndBinaryDataAreRefusedWithAFix) {
  const std::string utf16(
      "\xFF\xFE"
      "0\0 \0",
      6);
  EXPECT_THAT(error_of([&] { parse_yolo_labels(utf16); }), HasSubstr("iconv -f UTF-16"));
  EXPECT_THAT(error_of([] { parse_yolo_labels(std::string(100, '\0')); }),
              HasSubstr("full of zero bytes"));
}

TEST(TextFile, LinesEndAsOnAnySystem) {
  EXPECT_THAT(lines_of("a\nb\r\nc\rd"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(lines_of(" a \n\n\tb\t\n"), ElementsAre("a", "", "b"));
  EXPECT_TRUE(lines_of("").empty());
}

TEST(ClassNames, OneALineWithoutTheEmptyOnesAtTheEnd) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "n.names", "\xEF\xBB\xBFred cell\r\ndot \r\n\r\n");
  EXPECT_THAT(read_names_file(folder / "n.names"), ElementsAre("red cell", "dot"));
  files::write_atomic(folder / "n.names", "cell\n\ndot\n");
  EXPECT_THAT(error_of([&] { read_names_file(folder / "n.names"); }),
              testing::AllOf(HasSubstr("line 2 is empty: class 1"), HasSubstr("n.names")));
  files::write_atomic(folder / "n.names", "\n\n");
  EXPECT_THAT(error_of([&] { read_names_file(folder / "n.names"); }), HasSubstr("no class names"));
}

TEST(ClassNames, OfADataYamlAreAListOrAMap) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    files::write_atomic(folder / "data.yaml", text);
    return read_data_yaml(folder / "data.yaml");
  };
  EXPECT_THAT(read("names: [a, b]").names, ElementsAre("a", "b"));
  EXPECT_THAT(read("nc: 2\nnames:\n  1: b\n  0: a\n").names, ElementsAre("a", "b"));
  const DataYaml yaml = read("path: ../x\ntrain: [a, b]\nval: c\ntest:\nnames: [a]\nnc: 1\n");
  EXPECT_EQ(yaml.root, "../x");
  EXPECT_THAT(yaml.splits.at("train"), ElementsAre("a", "b"));
  EXPECT_THAT(yaml.splits.at("val"), ElementsAre("c"));
  const std::pair<const char*, const char*> mistakes[] = {
      {"names: [a, b]\nnc: 3", "nc is 3, but there are 2 names"},
      {"names:\n  0: a\n  2: c\n", "class number 2 among 2 classes"},
      {"names: a", "no class names"},
      {"train: x", "no class names"},
      {"- a", "no list of keys"},
      {"names: [a", "broken YAML"},
      {"names: [a]\nnc: many", "broken YAML"},
  };
  for (const auto& [text, message] : mistakes) {
    EXPECT_THAT(error_of([&] { read(text); }),
                testing::AllOf(HasSubstr(message), HasSubstr("data.yaml")))
        << text;
  }
}

TEST(ClassNames, DarknetDataIsKeysAndValues) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "obj.data", "classes= 2\r\ntrain  = data/train.txt\r\n# no\r\n");
  const auto values = read_darknet_data(folder / "obj.data");
  EXPECT_EQ(values.at("classes"), "2");
  EXPECT_EQ(values.at("train"), "data/train.txt");
  files::write_atomic(folder / "obj.data", "classes=2\ntrain data/train.txt\n");
  EXPECT_THAT(error_of([&] { read_darknet_data(folder / "obj.data"); }),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("obj.data")));
}

}  // namespace
}  // namespace detforge
