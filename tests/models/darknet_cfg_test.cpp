#include "detforge/models/darknet/darknet_cfg.h"

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

/// A network of every kind of layer: 64x64 input, one [yolo] of stride 8 with two classes. The line
/// of each section is its comment.
const std::string kEveryKind = R"([net]
# Training
batch=64
height = 64
width=64
channels=3
learning_rate=0.001

[convolutional]
filters=4
size=3
stride=2
pad=1
batch_normalize=1
activation=leaky

[convolutional]
filters=4
size=3
pad=1
groups=2
activation=mish

[shortcut]
from=-2
activation=linear

[maxpool]
size=2
stride=2

[dropout]
probability=.2

[convolutional]
filters=6
stride=2
activation=relu

[upsample]
stride=2

[route]
layers=-1, 4 ; the dropout

[route]
layers=-1
groups=2
group_id=1

[convolutional]
filters=14
stride=2
activation=linear

[yolo]
mask = 1,2
anchors = 1,2,  3,4,  5.5,6
num=3
classes=2
ignore_thresh=.7
scale_x_y=1.05
jitter=.3
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kEveryKind;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// What parsing complains of, as "message | where | fix".
std::string complaint(const std::string& text) {
  try {
    parse_darknet_cfg(text);
  } catch (const Error& error) {
    return error.message() + " | " + error.where() + " | " + error.fix();
  }
  return "no complaint";
}

void expect_complaint(const std::string& text, const std::vector<std::string>& parts) {
  const std::string said = complaint(text);
  for (const std::string& part : parts) {
    EXPECT_NE(said.find(part), std::string::npos) << "'" << part << "' is not in: " << said;
  }
}

TEST(DarknetCfg, ReadsEveryKindOfLayer) {
  const DarknetCfg cfg = parse_darknet_cfg(kEveryKind);
  ASSERT_EQ(cfg.layers.size(), 11U);
  EXPECT_EQ(cfg.height, 64);
  EXPECT_EQ(cfg.num_classes, 2);
  const auto& first = std::get<ConvolutionalSpec>(cfg.layers[0].spec);
  EXPECT_EQ(first.filters, 4);
  EXPECT_EQ(first.padding, 1);
  EXPECT_TRUE(first.batch_normalize);
  EXPECT_EQ(first.activation, DarknetActivation::kLeaky);
  const auto& grouped = std::get<ConvolutionalSpec>(cfg.layers[1].spec);
  EXPECT_EQ(grouped.groups, 2);
  EXPECT_FALSE(grouped.batch_normalize);
  EXPECT_EQ(grouped.activation, DarknetActivation::kMish);
  EXPECT_EQ(std::get<ShortcutSpec>(cfg.layers[2].spec).from, 0U);
  EXPECT_EQ(std::get<MaxpoolSpec>(cfg.layers[3].spec).padding, 1);  // Darknet's default: size - 1
  EXPECT_EQ(std::get<DropoutSpec>(cfg.layers[4].spec).probability, 0.2);
  EXPECT_EQ(std::get<ConvolutionalSpec>(cfg.layers[5].spec).padding, 0);
  EXPECT_EQ(std::get<RouteSpec>(cfg.layers[7].spec).layers, (std::vector<std::size_t>{6, 4}));
  EXPECT_EQ(std::get<RouteSpec>(cfg.layers[8].spec).group, 1);
  const auto& yolo = std::get<YoloSpec>(cfg.layers[10].spec);
  EXPECT_EQ(yolo.anchors, (std::vector<std::array<double, 2>>{{3, 4}, {5.5, 6}}));
  EXPECT_EQ(yolo.stride, 8);
  EXPECT_EQ(yolo.ignore_thresh, 0.7);
  EXPECT_EQ(yolo.scale_x_y, 1.05);
}

TEST(DarknetCfg, ShapesFollowDarknet) {
  const DarknetCfg cfg = parse_darknet_cfg(kEveryKind);
  const std::vector<DarknetShape> expected = {
      {4, 32, 32},                                          // (64 + 2 - 3) / 2 + 1
      {4, 32, 32}, {4, 32, 32}, {4, 16, 16},                // (32 + 1 - 2) / 2 + 1
      {4, 16, 16}, {6, 8, 8},   {6, 16, 16}, {10, 16, 16},  // 6 + 4 channels
      {5, 16, 16},                                          // the second half
      {14, 8, 8},  {14, 8, 8}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(cfg.layers[i].out, expected[i]) << darknet_layer_place(cfg, i);
  }
  EXPECT_EQ(cfg.size_divisibility(), 8);
}

TEST(DarknetCfg, UnusedSettingsAreListedOnce) {
  const DarknetCfg cfg = parse_darknet_cfg(kEveryKind);
  EXPECT_EQ(cfg.unused, (std::vector<std::string>{"[net] batch=64", "[net] learning_rate=0.001",
                                                  "[yolo] jitter=.3"}));
}

TEST(DarknetCfg, FilesWrittenOnWindowsAreTheSame) {
  std::string text = kEveryKind;
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  EXPECT_EQ(parse_darknet_cfg(text).layers.size(), 11U);
}

TEST(DarknetCfg, MistakesInTheTextNameTheLine) {
  expect_complaint("", {"no [section]"});
  expect_complaint("width=3\n", {"'width=3' stands before", "line 1"});
  expect_complaint(with("pad=1\nbatch", "pad\nbatch"), {"'pad' is neither", "line 13"});
  expect_complaint(with("[dropout]", "[dropout"), {"'[dropout' is no [section]", "line 32"});
  expect_complaint(with("stride=2\npad=1", "size=3\npad=1"),
                   {"size is there twice, in line 11", "line 12"});
  expect_complaint("[net]\nwidth=\x01\n", {"no text", "line 2"});
}

TEST(DarknetCfg, UnknownNamesComeWithTheNearest) {
  expect_complaint(with("[upsample]", "[upsampel]"),
                   {"[upsampel] is no layer", "layer 6", "line 40", "did you mean [upsample]?"});
  expect_complaint(with("batch_normalize=1", "batch_normalise=1"),
                   {"no key 'batch_normalise'", "layer 0 [convolutional], line 14",
                    "did you mean batch_normalize?"});
  expect_complaint(with("activation=mish", "activation=mich"), {"line 22", "did you mean mish?"});
  expect_complaint(with("batch=64", "bacth=64"), {"[net]", "line 3", "did you mean batch?"});
  expect_complaint(with("[dropout]", "[net]"), {"[net] stands here a second time", "line 32"});
}

TEST(DarknetCfg, ValuesOutOfRangeNameTheLine) {
  expect_complaint(with("filters=6", "filters=0"), {"filters is '0'", "layer 5", "line 36"});
  expect_complaint(with("filters=6", "filters=6.5"), {"filters is '6.5', not a whole number"});
  expect_complaint(with("filters=6", "filters="), {"filters is ''"});
  expect_complaint(with("probability=.2", "probability=nan"), {"probability is 'nan'", "line 33"});
  expect_complaint(with("activation=relu\n", ""), {"activation is missing", "layer 5", "line 35"});
  expect_complaint(with("channels=3", "channels=1"), {"channels is 1", "line 6"});
  expect_complaint(with("group_id=1", "group_id=2"), {"group_id is '2'", "line 49"});
  expect_complaint(with("mask = 1,2", "mask = 1,3"), {"mask is '3'", "line 57"});
  expect_complaint(with("[maxpool]\nsize=2", "[maxpool]\nsize=2\npadding=3"),
                   {"padding 3 makes windows of size 2 that see no pixel", "layer 3 [maxpool]"});
  expect_complaint(with("num=3", "num=4"), {"anchors are 6 numbers, num is 4"});
  expect_complaint(with("classes=2\n", ""), {"classes is missing", "layer 10 [yolo]"});
  expect_complaint(with("jitter=.3", "new_coords=1"), {"new_coords is '1'"});
}

TEST(DarknetCfg, ReferencesToLayersAreChecked) {
  expect_complaint(
      with("layers=-1, 4", "layers=-1, 7"),
      {"layers names layer 7, which is not before this one", "layer 7 [route]", "line 44"});
  expect_complaint(with("from=-2", "from=-3"),
                   {"layer -1 (2 + -3)", "layer 2 [shortcut], line 25"});
  expect_complaint(with("layers=-1, 4", "layers="), {"layers is missing or empty"});
  expect_complaint(with("layers=-1, 4", "layers=-1, 0"),
                   {"it joins 6 channels of 16x16 (layer 6) and 4 channels of 32x32 (layer 0)",
                    "layer 7 [route], line 43"});
  expect_complaint(with("filters=4\nsize=3\npad", "filters=6\nsize=3\npad"),
                   {"adds 4 channels of 32x32 (layer 0) to 6 channels of 32x32 (layer 1)",
                    "layer 2 [shortcut], line 24"});
  expect_complaint(with("groups=2\ngroup_id=1", "groups=3\ngroup_id=1"),
                   {"3 groups do not divide the 10 channels of layer 7"});
  expect_complaint(with("groups=2\nactivation", "groups=3\nactivation"),
                   {"3 groups do not divide 4 input channels and 4 filters"});
}

// F39: filters that do not fit classes and masks.
TEST(DarknetCfg, FiltersBeforeYoloMustFitItsClasses) {
  expect_complaint(
      with("classes=2", "classes=3"),
      {"the layer before has 14 filters, 2 masks * (5 + 3 classes) = 16",
       "layer 10 [yolo], line 56", "set filters=16 in layer 9 [convolutional], line 51"});
}

TEST(DarknetCfg, LayersMustLeadToAYolo) {
  expect_complaint(kEveryKind + "[route]\nlayers=4\n",
                   {"its output leads to no [yolo]", "layer 11 [route], line 64"});
  expect_complaint(kEveryKind + "[upsample]\n", {"reads the output of the [yolo] in layer 10"});
  expect_complaint("[net]\nwidth=32\nheight=32\n", {"no layer"});
}

TEST(DarknetCfg, YolosMustAgree) {
  const std::string second = kEveryKind.substr(kEveryKind.find("[route]\nlayers=-1\n"));
  std::string branch = second;
  branch.replace(branch.find("layers=-1"), 9, "layers=7");
  EXPECT_EQ(parse_darknet_cfg(kEveryKind + branch).layers.size(), 14U);
  branch.replace(branch.find("thresh=.7"), 9, "thresh=.6");
  expect_complaint(kEveryKind + branch,
                   {"ignore_thresh=0.7 here, 2 and 0.6 in a later [yolo]", "layer 10 [yolo]"});
}

TEST(DarknetCfg, MapsNeedAWholeStride) {
  const std::string text =
      "[convolutional]\nfilters=7\nstride=2\nactivation=linear\n[yolo]\nanchors=1,1\nclasses=2\n";
  EXPECT_EQ(complaint("[net]\nwidth=8\nheight=8\n" + text), "no complaint");
  expect_complaint("[net]\nwidth=9\nheight=9\n" + text,
                   {"its map is 5x5 of an input of 9x9: no whole stride", "layer 1 [yolo]"});
}

TEST(DarknetCfg, LyingSizesAreRefused) {
  std::string doubling = "[net]\nwidth=32\nheight=32\n[convolutional]\nactivation=linear\n";
  for (int i = 0; i < 80; ++i) {
    doubling += "[route]\nlayers=-1,-1\n";
  }
  expect_complaint(doubling, {"larger than anything"});
  expect_complaint(
      "[net]\nwidth=32\nheight=32\n[convolutional]\nactivation=linear\nfilters=1048576"
      "\n[convolutional]\nactivation=linear\nfilters=1048576\nsize=255\npad=1",
      {"more weights than any machine holds"});
}

TEST(DarknetCfg, ErrorsNameTheFileOnce) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "bad.cfg", "[net]\nheight=x\n");
  const std::string bad = (folder / "bad.cfg").string(), none = (folder / "none.cfg").string();
  for (const auto& [file, where] :
       {std::pair(bad, bad + ", [net], line 2"), std::pair(none, none)}) {
    try {
      read_darknet_cfg(file);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), where);
    }
  }
}

TEST(DarknetCfg, ReadsARealNetwork) {
  DETFORGE_REQUIRE_TEST_DATA("weights/yolo_fastest");
  const DarknetCfg cfg =
      read_darknet_cfg(test::test_data_dir() / "weights/yolo_fastest/yolo-fastest-1.1.cfg");
  EXPECT_EQ(cfg.layers.size(), 131U);
  EXPECT_EQ(cfg.num_classes, 80);
  EXPECT_EQ(cfg.size_divisibility(), 32);
  EXPECT_EQ(cfg.layers.back().out, (DarknetShape{255, 20, 20}));
}

}  // namespace
}  // namespace detforge
