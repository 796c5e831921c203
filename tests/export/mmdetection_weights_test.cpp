// YOLOv3 files that mmdetection wrote.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/export/load_weights.h"
#include "support/torch/tensors.h"
#include "support/torch/yolo_case.h"

namespace detforge {
namespace {

YoloV3 small_model(std::uint64_t seed) {
  YoloV3Options options;
  options.darknet.stem_channels = 2;
  options.neck.widths = {32, 16, 8};
  options.head.widths = {64, 32, 16};
  options.layout.num_classes = 2;
  return YoloV3(options, seed);
}

/// The tensors below `prefix`, without it, and a counter, as mmdetection has one for each norm.
Value state_below(const torch::nn::Module& model, const std::string& prefix) {
  Value state = Value::dict();
  for (const auto& [name, tensor] : test::state_of(model)) {
    if (name.starts_with(prefix)) {
      state.set(name.substr(prefix.size()), tensor.detach());
    }
  }
  state.set("conv1.bn.num_batches_tracked", torch::tensor(3, torch::kLong));
  return state;
}

TEST(MmdetectionWeights, BareDarknetFillsTheBackboneAlone) {
  const YoloV3 from = small_model(1);
  YoloV3 to = small_model(2);
  const Tensor neck = test::state_of(to).at("neck.conv1.conv.weight").detach().clone();
  const Value content = Value::dict().set("state_dict", state_below(from, "backbone."));
  const LoadReport report = load_weights(to, content, "darknet53.pth", {});
  EXPECT_EQ(report.layout, "mmdetection Darknet-53");
  EXPECT_EQ(report.loaded.size(), 260U);  // 52 layers of five tensors
  EXPECT_EQ(report.backbone_fraction, 1.0);
  EXPECT_EQ(report.ignored.size(), 1U);
  EXPECT_TRUE(report.unexpected.empty()) << report.table();
  EXPECT_EQ(report.preprocessing.pixel_format, "RGB");
  EXPECT_EQ(report.preprocessing.pixel_std, (std::vector<double>{255, 255, 255}));
  const auto wanted = test::state_of(from), state = test::state_of(to);
  for (const std::string& name : report.loaded) {
    EXPECT_TRUE(state.at(name).equal(wanted.at(name))) << name;
  }
  EXPECT_TRUE(state.at("neck.conv1.conv.weight").equal(neck));
}

TEST(MmdetectionWeights, ClassNamesOfBothVersionsAreRead) {
  const auto names_in = [](Value meta) {
    YoloV3 model = small_model(1);
    const Value content = Value::dict()
                              .set("meta", std::move(meta))
                              .set("state_dict", state_below(small_model(2), ""));
    return load_weights(model, content, "yolov3.pth", {}).class_names;
  };
  const std::vector<std::string> names{"cat", "dog"};
  EXPECT_EQ(names_in(Value::dict().set("CLASSES", Value::list({"cat", "dog"}))), names);
  EXPECT_EQ(names_in(Value::dict().set("dataset_meta",
                                       Value::dict().set("classes", Value::list({"cat", "dog"})))),
            names);
  EXPECT_TRUE(names_in(Value::dict()).empty());
}

TEST(MmdetectionWeightsParity, FileFillsTheWholeModel) {
  int files = 0;
  for (const test::ParityCase& parity_case : test::parity_cases(test::is_yolo_case)) {
    const auto file = parity_case.folder / "weights.pth";
    if (!std::filesystem::exists(file)) {
      continue;
    }
    SCOPED_TRACE(file.string());
    YoloV3 model(test::yolo_case_options(parity_case.description), 1);
    const LoadReport report = load_weights(model, file);
    EXPECT_EQ(report.loaded.size(), test::state_of(model).size());
    EXPECT_EQ(report.ignored.size(), 72U);  // counters of 72 norms
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty()) << report.table();
    EXPECT_EQ(report.preprocessing.pixel_format, "RGB");
    const auto wanted = test::yolo_case_model(parity_case);
    const auto wanted_state = test::state_of(*wanted), state = test::state_of(model);
    for (const auto& [name, tensor] : wanted_state) {
      EXPECT_TRUE(state.at(name).equal(tensor)) << name;
    }
    ++files;
  }
  if (files == 0) {
    GTEST_SKIP() << "no weights.pth of YOLOv3 in the parity folders";
  }
}

}  // namespace
}  // namespace detforge
