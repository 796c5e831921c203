#include "detforge/export/darknet_weights.h"

#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/export/load_weights.h"
#include "detforge/models/darknet/darknet_detector.h"
#include "detforge/models/yolo/yolov3.h"
#include "support/test_data.h"

namespace detforge {
namespace {

/// A convolution with BatchNorm of 2 filters over 3 channels, and one with a bias of 7 over 2.
constexpr const char* kCfg = R"([net]
width=8
height=8

[convolutional]
filters=2
batch_normalize=1
activation=leaky

[convolutional]
filters=7
activation=linear

[yolo]
anchors=1,1
classes=2
)";
constexpr std::int64_t kFloats = (4 * 2 + 2 * 3) + (7 + 7 * 2);

DarknetDetector make_detector() {
  return DarknetDetector({.cfg = parse_darknet_cfg(kCfg)}, 1);
}

/// 0, 1, 2, ...
DarknetFile counting_file(std::int64_t floats) {
  DarknetFile file;
  file.seen = 12;
  file.values = torch::arange(floats, torch::kFloat);
  return file;
}

Tensor state_of(const torch::nn::Module& model, const std::string& name) {
  const auto parameters = model.named_parameters();
  const Tensor* parameter = parameters.find(name);
  return (parameter != nullptr ? *parameter : model.named_buffers()[name]).detach();
}

std::vector<float> floats(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

/// YOLOv3 with the reference's layers, 32 times narrower.
YoloV3Options narrow_options(std::int64_t num_classes) {
  YoloV3Options options;
  options.darknet.stem_channels = 2;
  options.neck.widths = {32, 16, 8};
  options.head.widths = {64, 32, 16};
  options.layout.num_classes = num_classes;
  return options;
}

TEST(DarknetWeights, NumbersGoWhereDarknetPutsThem) {
  DarknetDetector detector = make_detector();
  const LoadReport report = load_weights(detector, to_value(counting_file(kFloats)), "test", {});
  EXPECT_EQ(report.loaded.size(), 7U) << report.table();
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty()) << report.table();
  EXPECT_EQ(report.preprocessing.pixel_format, "RGB");
  EXPECT_EQ(floats(state_of(detector, "layers.0.bn.bias")), (std::vector<float>{0, 1}));
  EXPECT_EQ(floats(state_of(detector, "layers.0.bn.weight")), (std::vector<float>{2, 3}));
  EXPECT_EQ(floats(state_of(detector, "layers.0.bn.running_mean")), (std::vector<float>{4, 5}));
  EXPECT_EQ(floats(state_of(detector, "layers.0.bn.running_var")), (std::vector<float>{6, 7}));
  EXPECT_EQ(floats(state_of(detector, "layers.0.conv.weight")),
            (std::vector<float>{8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(floats(state_of(detector, "layers.1.conv.bias"))[0], 14);
  EXPECT_EQ(floats(state_of(detector, "layers.1.conv.weight"))[0], 21);
}

TEST(DarknetWeights, AreWrittenAsTheyWereRead) {
  const test::TemporaryFolder folder;
  DarknetDetector detector = make_detector();
  load_weights(detector, to_value(counting_file(kFloats)), "test", {});
  save_darknet_weights(folder / "a.weights", detector, {.seen = 12});
  write_darknet_file(folder / "b.weights", counting_file(kFloats));
  EXPECT_EQ(files::read(folder / "a.weights"), files::read(folder / "b.weights"));
}

/// What loading so many floats complains of.
std::string complaint(std::int64_t floats) {
  DarknetDetector detector = make_detector();
  const Tensor before = state_of(detector, "layers.0.conv.weight").clone();
  try {
    load_weights(detector, to_value(counting_file(floats)), "test.weights", {});
  } catch (const Error& error) {
    EXPECT_TRUE(state_of(detector, "layers.0.conv.weight").equal(before));
    return error.message() + " | " + error.where();
  }
  return "no complaint";
}

// F40: a file cut short by 4 bytes, or of another network.
TEST(DarknetWeights, TheLengthMustFitAndErrorsNameLayerAndLine) {
  EXPECT_EQ(complaint(kFloats - 1),
            "the file ends inside convolution 1: it has 20 of its 21 floats, 1 are missing | "
            "test.weights, layer 1 [convolutional], line 10");
  EXPECT_EQ(complaint(3),
            "the file ends inside convolution 0: it has 3 of its 14 floats, 11 are missing | "
            "test.weights, layer 0 [convolutional], line 5");
  EXPECT_EQ(complaint(kFloats + 2),  // with 3 more it were a network of 3 classes
            "2 floats are left over behind the last convolution (layer 1 [convolutional], line 10)"
            " | test.weights");
  EXPECT_EQ(complaint(0), "the file holds no weights | test.weights");
}

// As darknet53.conv.74: the first convolutions alone.
TEST(DarknetWeights, TheFirstConvolutionsAloneCanBeLoaded) {
  DarknetDetector detector = make_detector();
  const LoadReport report = load_weights(detector, to_value(counting_file(14)), "test", {});
  EXPECT_EQ(report.loaded.size(), 5U) << report.table();
  EXPECT_EQ(report.missing,
            (std::vector<std::string>{"layers.1.conv.weight", "layers.1.conv.bias"}));
}

// 3 classes instead of 2: 8 outputs instead of 7.
TEST(DarknetWeights, AFileForOtherClassesFillsAllButThePredictions) {
  DarknetDetector detector = make_detector();
  const LoadReport report =
      load_weights(detector, to_value(counting_file(kFloats + 1 + 2)), "test", {});
  EXPECT_EQ(report.loaded.size(), 5U) << report.table();
  EXPECT_EQ(
      report.reinitialised,
      (std::vector<std::string>{"layers.1.conv.weight (model [7, 2, 1, 1], file [8, 2, 1, 1])",
                                "layers.1.conv.bias (model [7], file [8])"}));
}

TEST(DarknetWeights, YoloV3sWeightsForOtherClassesFillAllButThePredictions) {
  const test::TemporaryFolder folder;
  save_darknet_weights(folder / "a.weights", YoloV3(narrow_options(80), 1));
  YoloV3 other(narrow_options(3), 2);
  const LoadReport report = load_weights(other, folder / "a.weights");
  EXPECT_EQ(report.reinitialised.size(), 6U) << report.table();
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty()) << report.table();
}

TEST(DarknetWeights, NotFiniteNumbersAreRefused) {
  DarknetDetector detector = make_detector();
  DarknetFile file = counting_file(kFloats);
  file.values[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(load_weights(detector, to_value(file), "test", {}), Error);
}

TEST(DarknetWeights, LayersAreOrderedByNumber) {
  StateShapes shapes;
  for (const char* layer : {"10", "2", "0"}) {
    shapes[fmt::format("layers.{}.conv.weight", layer)] = {1, 1, 1, 1};
    shapes[fmt::format("layers.{}.conv.bias", layer)] = {1};
  }
  const auto order = darknet_order(shapes);
  ASSERT_EQ(order.size(), 3U);
  EXPECT_EQ(order[1].conv, "layers.2.conv");
  EXPECT_EQ(order[2].conv, "layers.10.conv");
  shapes.erase("layers.2.conv.bias");
  EXPECT_THROW(darknet_order(shapes), Error);
  EXPECT_TRUE(darknet_order(StateShapes{{"stem.conv1.weight", {1, 1, 1, 1}}}).empty());
}

// The layers of Darknet's yolov3.cfg, counted by hand: 52 convolutions up to layer 74, then the
// branches; [convolutional] with linear activation in layers 81, 93 and 105.
TEST(DarknetWeights, YoloV3HasTheOrderOfItsCfg) {
  const auto order = darknet_order(YoloV3(narrow_options(80), 1));
  ASSERT_EQ(order.size(), 75U);
  const std::vector<std::pair<std::size_t, std::string>> expected = {
      {0, "backbone.conv1.conv"},
      {1, "backbone.conv_res_block1.conv.conv"},
      {2, "backbone.conv_res_block1.res0.conv1.conv"},
      {3, "backbone.conv_res_block1.res0.conv2.conv"},
      {4, "backbone.conv_res_block2.conv.conv"},
      {51, "backbone.conv_res_block5.res3.conv2.conv"},
      {52, "neck.detect1.conv1.conv"},
      {56, "neck.detect1.conv5.conv"},
      {57, "bbox_head.convs_bridge.0.conv"},
      {58, "bbox_head.convs_pred.0"},
      {59, "neck.conv1.conv"},
      {60, "neck.detect2.conv1.conv"},
      {65, "bbox_head.convs_bridge.1.conv"},
      {66, "bbox_head.convs_pred.1"},
      {67, "neck.conv2.conv"},
      {68, "neck.detect3.conv1.conv"},
      {74, "bbox_head.convs_pred.2"}};
  for (const auto& [position, name] : expected) {
    EXPECT_EQ(order[position].conv, name) << position;
  }
  EXPECT_EQ(order[0].norm, "backbone.conv1.bn");
  EXPECT_EQ(order[58].norm, "");
  EXPECT_EQ(order[58].weight_shape, (std::vector<std::int64_t>{255, 64, 1, 1}));
}

TEST(DarknetWeights, YoloV3GoesOutAndComesBack) {
  const test::TemporaryFolder folder;
  const YoloV3 model(narrow_options(3), 1);
  save_darknet_weights(folder / "a.weights", model);
  YoloV3 other(narrow_options(3), 2);
  const LoadReport report = load_weights(other, folder / "a.weights");
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty()) << report.table();
  for (const auto& parameter : model.named_parameters()) {
    EXPECT_TRUE(parameter.value().equal(state_of(other, parameter.key()))) << parameter.key();
  }
  save_darknet_weights(folder / "b.weights", other);
  EXPECT_EQ(files::read(folder / "a.weights"), files::read(folder / "b.weights"));
}

}  // namespace
}  // namespace detforge
