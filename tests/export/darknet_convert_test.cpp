#include "detforge/export/darknet_convert.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/darknet_file.h"
#include "detforge/serialize/torch_file.h"
#include "support/test_data.h"

namespace detforge {
namespace {

DarknetFile random_file(std::int64_t floats) {
  DarknetFile file;
  file.revision = 0;
  file.seen = 32013312;
  torch::manual_seed(1);
  file.values = torch::randn({floats});
  return file;
}

void expect_round_trip(const std::filesystem::path& file,
                       const std::optional<std::filesystem::path>& cfg) {
  const test::TemporaryFolder folder;
  const DarknetConversion there = convert_from_darknet(file, folder / "native.pth", cfg);
  const DarknetConversion back = convert_to_darknet(folder / "native.pth", folder / "back.weights");
  EXPECT_EQ(there.convolutions, back.convolutions);
  EXPECT_EQ(there.floats, back.floats);
  EXPECT_EQ(files::fnv1a64(files::read(folder / "back.weights")),
            files::fnv1a64(files::read(file)));
}

TEST(DarknetConvert, ARealNetworkGoesThereAndBack) {
  DETFORGE_REQUIRE_TEST_DATA("weights/yolo_fastest");
  const auto folder = test::test_data_dir() / "weights/yolo_fastest";
  expect_round_trip(folder / "yolo-fastest-1.1.weights", folder / "yolo-fastest-1.1.cfg");
}

/// Three convolutions of 3 * 2 + 4 * 2 = 14, 2 * 2 + 4 * 2 = 12 and 2 * 6 + 6 = 18 floats.
constexpr const char* kCfg = R"([net]
width=8
height=8
batch=64
[convolutional]
filters=2
batch_normalize=1
activation=leaky
[convolutional]
filters=2
batch_normalize=1
activation=leaky
[convolutional]
filters=6
activation=linear
[yolo]
anchors=4,4
classes=1
)";

TEST(DarknetConvert, AFileThatEndsEarlyIsCountedAsFarAsItGoes) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "net.cfg", kCfg);
  for (const auto& [floats, taken] : {std::pair{14 + 12 + 18, 3U}, {14 + 12, 2U}, {14, 1U}}) {
    write_darknet_file(folder / "a.weights", random_file(floats));
    const DarknetConversion done =
        convert_from_darknet(folder / "a.weights", folder / "a.pth", folder / "net.cfg");
    EXPECT_EQ(done.convolutions, taken);
    EXPECT_EQ(done.total, 3U);
    EXPECT_EQ(done.floats, floats);
    const DarknetConversion back = convert_to_darknet(folder / "a.pth", folder / "b.weights");
    EXPECT_EQ(back.convolutions, taken);
    EXPECT_EQ(back.total, taken);
  }
}

// There is no recipe that could decide what [net] batch=64 is about.
TEST(DarknetConvert, SaysNothingOfSettingsForTraining) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "net.cfg", kCfg);
  write_darknet_file(folder / "a.weights", random_file(44));
  testing::internal::CaptureStderr();
  convert_from_darknet(folder / "a.weights", folder / "a.pth", folder / "net.cfg");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// F40: weights of other images work nowhere in Darknet.
TEST(DarknetConvert, WeightsForOtherImagesThanDarknetsAreRefused) {
  const test::TemporaryFolder folder;
  const Value state = Value::dict()
                          .set("layers.0.conv.weight", torch::rand({2, 3, 1, 1}))
                          .set("layers.0.conv.bias", torch::rand({2}));
  const auto convert = [&](Value content) {
    write_torch_file(folder / "a.pth", content.set("model", state));
    convert_to_darknet(folder / "a.pth", folder / "a.weights");
  };
  EXPECT_NO_THROW(convert(Value::dict()));  // says nothing
  EXPECT_NO_THROW(convert(Value::dict()
                              .set("pixel_mean", Value::list({0.0, 0.0, 0.0}))
                              .set("pixel_std", Value::list({255.0, 255.0, 255.0}))
                              .set("pixel_format", "RGB")));
  for (const Value& other : {Value::dict().set("pixel_format", "BGR"),
                             Value::dict().set("pixel_mean", Value::list({0.0, 0.0, 1.0})),
                             Value::dict().set("pixel_std", Value::list({1.0, 1.0, 1.0}))}) {
    EXPECT_THROW(convert(other), Error);
  }
  std::filesystem::remove(folder / "a.weights");
  try {
    convert(Value::dict()
                .set("pixel_mean", Value::list({103.5, 116.0, 123.0}))
                .set("pixel_format", "BGR"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "the weights expect other images (BGR, mean [103.5, 116, 123]) than Darknet gives "
              "(RGB, mean [0, 0, 0], std [255, 255, 255])");
    EXPECT_EQ(error.where(), (folder / "a.pth").string());
    EXPECT_NE(error.fix().find("PIXEL_STD"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a.weights"));
}

// mmdetection's ImageNet files name the backbone's layers without "backbone.".
TEST(DarknetConvert, ABareBackboneIsWrittenAsTheBackboneOfAYoloV3) {
  const test::TemporaryFolder folder;
  Value whole = Value::dict(), bare = Value::dict();
  for (const char* layer : {"conv1", "conv_res_block1.conv"}) {
    for (const char* part :
         {"conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}) {
      const std::string name = fmt::format("{}.{}", layer, part);
      const Tensor values =
          name.ends_with("conv.weight") ? torch::rand({2, 3, 1, 1}) : torch::rand({2});
      bare.set(name, values);
      whole.set("backbone." + name, values);
    }
  }
  write_torch_file(folder / "bare.pth", Value::dict().set("state_dict", bare));
  write_torch_file(folder / "whole.pth", whole);
  EXPECT_EQ(convert_to_darknet(folder / "bare.pth", folder / "a.weights").convolutions, 2U);
  convert_to_darknet(folder / "whole.pth", folder / "b.weights");
  EXPECT_EQ(files::read(folder / "a.weights"), files::read(folder / "b.weights"));
}

// Sizes of the published files: darknet53.conv.74 has 162,482,580 bytes, yolov3.weights
// 248,007,048.
TEST(DarknetConvertSlow, FilesOfDarknetsOwnNetworksAreKnownByTheirLength) {
  const test::TemporaryFolder folder;
  for (const auto& [bytes, classes] : {std::pair<std::int64_t, std::int64_t>{162'482'580, 0},
                                       {248'007'048, 80},
                                       {248'007'048 - 4 * 77 * 5385, 3}}) {
    const auto file = folder / "file.weights";
    write_darknet_file(file, random_file((bytes - 20) / 4));
    const DarknetConversion done = convert_from_darknet(file, folder / "native.pth", {});
    EXPECT_EQ(done.num_classes, classes);
    EXPECT_EQ(done.convolutions, classes == 0 ? 52U : 75U);
    const Value content = read_torch_file(folder / "native.pth");
    EXPECT_EQ(content.item("file")["model"]["backbone.conv1.conv.weight"].tensor().sizes(),
              (std::vector<std::int64_t>{32, 3, 3, 3}));
    EXPECT_EQ(content.item("file")["pixel_format"].string(), "RGB");
    expect_round_trip(file, {});
  }
}

TEST(DarknetConvert, FilesThatCannotBeReadAreNamedOnce) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "net.cfg", kCfg);
  write_darknet_file(folder / "a.weights", random_file(44));
  const auto where = [&](const char* weights, const char* cfg) -> std::string {
    try {
      convert_from_darknet(folder / weights, folder / "a.pth", folder / cfg);
    } catch (const Error& error) {
      return error.where();
    }
    return "";
  };
  EXPECT_EQ(where("a.weights", "net.cfg"), "");
  EXPECT_EQ(where("none.weights", "net.cfg"), (folder / "none.weights").string());
  EXPECT_EQ(where("a.weights", "none.cfg"), (folder / "none.cfg").string());
}

TEST(DarknetConvert, OtherFilesAreRefused) {
  const test::TemporaryFolder folder;
  write_darknet_file(folder / "a.weights", random_file(1000));
  try {
    convert_from_darknet(folder / "a.weights", folder / "a.pth", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "1000 floats are neither Darknet-53's nor YOLOv3's of any number of classes");
    EXPECT_EQ(error.where(), (folder / "a.weights").string());
  }
  EXPECT_THROW(convert_to_darknet(folder / "a.weights", folder / "b.weights"), Error);
  write_torch_file(folder / "c.pth", Value::dict().set("fc.weight", torch::ones({1})));
  EXPECT_THROW(convert_to_darknet(folder / "c.pth", folder / "b.weights"), Error);
  EXPECT_THROW(convert_from_darknet(folder / "c.pth", folder / "a.pth", {}), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "b.weights"));
}

}  // namespace
}  // namespace detforge
