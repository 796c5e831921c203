#include "detforge/export/load_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/models/backbones/fpn.h"
#include "detforge/serialize/torch_file.h"
#include "support/npz.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

/// A module with parameters of given full names, without any layers.
class Named : public torch::nn::Module {
 public:
  void add(const std::string& full_name, const Tensor& value, bool buffer = false) {
    const std::size_t dot = full_name.find('.');
    if (dot != std::string::npos) {
      const std::string child = full_name.substr(0, dot);
      if (children_.count(child) == 0) {
        children_[child] = register_module(child, std::make_shared<Named>());
      }
      return children_[child]->add(full_name.substr(dot + 1), value, buffer);
    }
    if (buffer || !value.is_floating_point()) {
      register_buffer(full_name, value);
    } else {
      register_parameter(full_name, value);
    }
  }

  Tensor at(const std::string& name) const {
    for (const auto& parameter : named_parameters()) {
      if (parameter.key() == name) {
        return parameter.value().detach();
      }
    }
    return named_buffers()[name];
  }

 private:
  std::map<std::string, std::shared_ptr<Named>> children_;
};

/// A detector in miniature: backbone of three tensors and a counter, heads for `classes` classes.
Named small_model(std::int64_t classes) {
  Named model;
  model.add("backbone.bottom_up.stem.conv1.weight", torch::zeros({4, 3, 2, 2}));
  model.add("backbone.bottom_up.stem.conv1.norm.weight", torch::zeros({4}), true);
  model.add("backbone.bottom_up.res2.0.conv1.weight", torch::zeros({4, 4, 1, 1}));
  model.add("backbone.bottom_up.res2.0.conv1.norm.num_batches_tracked",
            torch::tensor(0, torch::kLong));
  model.add("roi_heads.box_predictor.cls_score.weight", torch::zeros({classes + 1, 5}));
  model.add("roi_heads.box_predictor.bbox_pred.weight", torch::zeros({4 * classes, 5}));
  return model;
}

Value small_state(std::int64_t classes, const std::string& prefix = "") {
  return Value::dict()
      .set(prefix + "backbone.bottom_up.stem.conv1.weight", torch::ones({4, 3, 2, 2}))
      .set(prefix + "backbone.bottom_up.stem.conv1.norm.weight", torch::full({4}, 2.0))
      .set(prefix + "backbone.bottom_up.res2.0.conv1.weight",
           torch::full({4, 4, 1, 1}, 3.0, torch::kDouble))
      .set(prefix + "backbone.bottom_up.res2.0.conv1.norm.num_batches_tracked",
           torch::tensor(9, torch::kLong))
      .set(prefix + "roi_heads.box_predictor.cls_score.weight", torch::ones({classes + 1, 5}))
      .set(prefix + "roi_heads.box_predictor.bbox_pred.weight", torch::ones({4 * classes, 5}));
}

using Names = std::vector<std::string>;

void expect_all_loaded(const Value& content) {
  Named model = small_model(3);
  const LoadReport report = load_weights(model, content, "test", {});
  EXPECT_EQ(report.loaded.size(), 5U) << report.table();
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty() && report.reinitialised.empty())
      << report.table();
  EXPECT_EQ(report.ignored.size(), 1U);
  EXPECT_EQ(report.backbone_fraction, 1.0);
  EXPECT_TRUE(
      model.at("backbone.bottom_up.res2.0.conv1.weight").equal(torch::full({4, 4, 1, 1}, 3.0F)));
  EXPECT_TRUE(model.at("backbone.bottom_up.stem.conv1.norm.weight").equal(torch::full({4}, 2.0F)));
  EXPECT_EQ(
      model.at("backbone.bottom_up.res2.0.conv1.norm.num_batches_tracked").item<std::int64_t>(), 0);
}

TEST(LoadWeights, EveryPlaceOfTheStateDict) {
  expect_all_loaded(small_state(3));
  expect_all_loaded(Value::dict().set("model", small_state(3)).set("iteration", 7));
  expect_all_loaded(Value::dict().set("state_dict", small_state(3)).set("meta", Value::dict()));
  expect_all_loaded(Value::dict().set("state_dict", small_state(3, "module.")));
}

TEST(LoadWeights, CheckpointsOfAveragedWeightsGiveTheAverage) {
  const Value state = small_state(3);
  Value average = Value::dict();
  for (const Value::Entry& entry : *state.entries()) {
    average.set(*entry.key.get_if<std::string>(), *entry.value.get_if<Tensor>() * 10);
  }
  const Value checkpoint =
      Value::dict().set("model", small_state(3)).set("ema", average).set("ema_updates", 5);
  Named model = small_model(3);
  const LoadReport report = load_weights(model, checkpoint, "test", {});
  EXPECT_TRUE(report.averaged);
  EXPECT_NE(report.table().find("averaged weights (ema)"), std::string::npos);
  EXPECT_TRUE(
      model.at("backbone.bottom_up.stem.conv1.weight").equal(torch::full({4, 3, 2, 2}, 10.0F)));

  // An `ema` of another program's making, whatever it is, does not count.
  const Value other = Value::dict().set("model", small_state(3)).set("ema", Value::dict());
  expect_all_loaded(other);
  EXPECT_FALSE(load_weights(model, other, "test", {}).averaged);
}

TEST(LoadWeights, HeadsForOtherClassesStayInitialised) {
  Named model = small_model(3);
  const LoadReport report = load_weights(model, small_state(80), "test", {});
  ASSERT_EQ(report.reinitialised.size(), 2U);
  EXPECT_EQ(report.reinitialised[0],
            "roi_heads.box_predictor.cls_score.weight (model [4, 5], file [81, 5])");
  EXPECT_EQ(report.loaded.size(), 3U);
  EXPECT_TRUE(model.at("roi_heads.box_predictor.cls_score.weight").equal(torch::zeros({4, 5})));
}

TEST(LoadWeights, TableNamesWhatDidNotFit) {
  Named model = small_model(3);
  Value state = small_state(80);
  state.set("extra.weight", torch::ones({1}));
  model.add("new_head.weight", torch::zeros({1}));
  const std::string table = load_weights(model, state, "test", {}).table();
  for (const char* text : {"3 loaded", "2 re-initialised", "1 missing", "1 unexpected",
                           "extra.weight", "new_head.weight", "file [81, 5]"}) {
    EXPECT_NE(table.find(text), std::string::npos) << text << " in\n" << table;
  }
}

TEST(LoadWeights, IncompleteBackboneIsAnErrorAndChangesNothing) {
  Named model = small_model(3);
  const Value state =
      Value::dict().set("backbone.bottom_up.stem.conv1.weight", torch::ones({4, 3, 2, 2}));
  try {
    load_weights(model, state, "some.pth", {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("only 33.3 % of the backbone"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.where(), "some.pth");
  }
  EXPECT_TRUE(model.at("backbone.bottom_up.stem.conv1.weight").equal(torch::zeros({4, 3, 2, 2})));
  const LoadReport report = load_weights(model, state, "some.pth", {.min_backbone_fraction = 0.0});
  EXPECT_EQ(report.loaded, Names{"backbone.bottom_up.stem.conv1.weight"});
}

TEST(LoadWeights, NothingThatFitsIsAnError) {
  Named model = small_model(3);
  EXPECT_THROW(load_weights(model, Value::dict().set("x", torch::ones({1})), "x",
                            {.min_backbone_fraction = 0.0}),
               Error);
  EXPECT_THROW(load_weights(model, Value::dict().set("x", 1), "x", {}), Error);
  EXPECT_THROW(load_weights(model, Value(3), "x", {}), Error);
}

TEST(LoadWeights, NotFiniteWeightsAreAnError) {
  Named model = small_model(3);
  Value state = small_state(3);
  state.set("backbone.bottom_up.stem.conv1.norm.weight", torch::full({4}, std::nan("")));
  EXPECT_THROW(load_weights(model, state, "x", {}), Error);
}

TEST(LoadWeights, TorchvisionsBackgroundClassMovesToTheEnd) {
  Named model;
  model.add("backbone.bottom_up.stem.conv1.weight", torch::zeros({1, 3, 2, 2}));
  model.add("roi_heads.box_predictor.cls_score.bias", torch::zeros({3}));
  model.add("roi_heads.box_predictor.bbox_pred.bias", torch::zeros({8}));
  const LoadReport report = load_weights(
      model,
      Value::dict()
          .set("backbone.body.conv1.weight", torch::ones({1, 3, 2, 2}))
          .set("roi_heads.box_predictor.cls_score.bias", torch::tensor({9.0F, 1.0F, 2.0F}))
          .set("roi_heads.box_predictor.bbox_pred.bias", torch::arange(12, torch::kFloat)),
      "x", {});
  EXPECT_TRUE(
      model.at("roi_heads.box_predictor.cls_score.bias").equal(torch::tensor({1.0F, 2.0F, 9.0F})));
  EXPECT_TRUE(model.at("roi_heads.box_predictor.bbox_pred.bias")
                  .equal(torch::arange(4, 12, torch::kFloat)));
  EXPECT_EQ(report.preprocessing.pixel_format, "RGB");
}

TEST(LoadWeights, Caffe2FileFillsTheBackboneWithoutStatistics) {
  Named model = small_model(3);
  model.add("backbone.bottom_up.stem.conv1.norm.running_mean", torch::zeros({4}), true);
  const LoadReport report = load_weights(
      model,
      Value::dict().set("blobs", Value::dict()
                                     .set("conv1_w", torch::ones({4, 3, 2, 2}))
                                     .set("conv1_w_momentum", torch::ones({4, 3, 2, 2}))
                                     .set("res_conv1_bn_s", torch::full({4}, 2.0))
                                     .set("res2_0_branch2a_w", torch::full({4, 4, 1, 1}, 3.0))
                                     .set("pred_w", torch::ones({10, 4}))
                                     .set("weight_order", "ignored text")),
      "R-50.pkl", {});
  EXPECT_EQ(report.loaded.size(), 3U) << report.table();
  EXPECT_EQ(report.unexpected, Names{"pred_w"});
  EXPECT_EQ(report.ignored, Names{"conv1_w_momentum"});
  EXPECT_EQ(report.backbone_fraction, 1.0);
  EXPECT_EQ(report.preprocessing.pixel_format, "BGR");
  EXPECT_EQ(report.preprocessing.pixel_std, (std::vector<double>{1.0, 1.0, 1.0}));
}

/// A tensor of MSRA's R-50-GN.pkl and the one of Detectron2's model that it fills.
struct GnName {
  std::string caffe2, detectron2;
};

std::vector<GnName> names_of_gn_resnet50() {
  std::vector<GnName> names;
  const auto add_layer = [&](const std::string& caffe2, const std::string& detectron2) {
    names.push_back({caffe2 + "_w", detectron2 + ".weight"});
    names.push_back({caffe2 + "_gn_s", detectron2 + ".norm.weight"});
    names.push_back({caffe2 + "_gn_b", detectron2 + ".norm.bias"});
  };
  add_layer("conv1", "backbone.bottom_up.stem.conv1");
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 2; stage <= 5; ++stage) {
    for (int block = 0; block < blocks[stage - 2]; ++block) {
      const std::string from = fmt::format("res{}_{}_branch", stage, block);
      const std::string to = fmt::format("backbone.bottom_up.res{}.{}.", stage, block);
      if (block == 0) {
        add_layer(from + "1", to + "shortcut");
      }
      add_layer(from + "2a", to + "conv1");
      add_layer(from + "2b", to + "conv2");
      add_layer(from + "2c", to + "conv3");
    }
  }
  return names;
}

class GnBackbone : public torch::nn::Module {
 public:
  GnBackbone() {
    register_module("backbone", Fpn(ResNet(ResNetOptions{.norm = NormType::kGn, .freeze_at = 0}),
                                    FpnOptions{.norm = NormType::kGn}));
  }
};

TEST(LoadWeights, Caffe2FileWithGroupNormFillsTheWholeBackbone) {
  GnBackbone model;
  const auto parameters = model.named_parameters();
  Value blobs = Value::dict();
  double value = 0;
  const std::vector<GnName> names = names_of_gn_resnet50();
  EXPECT_EQ(names.size(), 3U * 53U);
  for (const auto& [caffe2, detectron2] : names) {
    ASSERT_TRUE(parameters.contains(detectron2)) << detectron2;
    blobs.set(caffe2, torch::full_like(parameters[detectron2], ++value));
  }
  blobs.set("pred_w", torch::ones({1000, 2048})).set("pred_b", torch::ones({1000}));
  const LoadReport report =
      load_weights(model, Value::dict().set("blobs", std::move(blobs)), "R-50-GN.pkl", {});
  EXPECT_EQ(report.layout, "Caffe2 ResNet");
  EXPECT_EQ(report.loaded.size(), names.size()) << report.table();
  EXPECT_EQ(report.unexpected, (Names{"pred_w", "pred_b"}));
  EXPECT_EQ(report.backbone_fraction, 1.0);
  for (const std::string& name : report.missing) {
    EXPECT_EQ(name.find("bottom_up"), std::string::npos) << name;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE((parameters[names[i].detectron2] == static_cast<double>(i + 1)).all().item<bool>())
        << names[i].detectron2;
  }
}

TEST(LoadWeights, TwoNamesForOneTensorAreAnErrorAndChangeNothing) {
  const std::string stem = "backbone.bottom_up.stem.conv1.norm.weight";
  const std::vector<GnName> pairs = {{stem, "module." + stem}, {"res_conv1_bn_s", "conv1_gn_s"}};
  for (const auto& [first, second] : pairs) {
    Named model = small_model(3);
    Value state = first == stem ? small_state(3)
                                : Value::dict()
                                      .set("conv1_w", torch::ones({4, 3, 2, 2}))
                                      .set("res2_0_branch2a_w", torch::ones({4, 4, 1, 1}));
    state.set(first, torch::ones({4})).set(second, torch::ones({4}));
    try {
      load_weights(model, state, "some.pkl", {});
      FAIL() << "accepted " << second;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(first + " and " + second + " of the file"), std::string::npos)
          << error.what();
      EXPECT_NE(error.message().find(stem), std::string::npos) << error.what();
      EXPECT_EQ(error.where(), "some.pkl");
    }
    EXPECT_TRUE(model.at(stem).equal(torch::zeros({4})));
  }
}

TEST(LoadWeights, OwnCheckpointTellsPreprocessingAndClasses) {
  Named model = small_model(3);
  const Value content = Value::dict()
                            .set("model", small_state(3))
                            .set("pixel_mean", Value::list({1.0, 2.0, 3.0}))
                            .set("pixel_std", Value::list({4.0, 5.0, 6.0}))
                            .set("pixel_format", "RGB")
                            .set("class_names", Value::list({"a", "b", "c"}));
  const LoadReport report = load_weights(model, content, "last.pth", {});
  EXPECT_EQ(report.preprocessing.pixel_mean, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(report.preprocessing.pixel_std, (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(report.preprocessing.pixel_format, "RGB");
  EXPECT_EQ(report.class_names, (Names{"a", "b", "c"}));
}

TEST(LoadWeights, SavedWeightsLoadIntoAnEqualModel) {
  const test::TemporaryFolder folder;
  Named model = small_model(3);
  load_weights(model, small_state(3), "x", {});
  save_weights(folder / "w.pth", model);
  Named other = small_model(3);
  load_weights(other, folder / "w.pth");
  EXPECT_TRUE(
      other.at("backbone.bottom_up.res2.0.conv1.weight").equal(torch::full({4, 4, 1, 1}, 3.0F)));
}

TEST(LoadWeights, FormatSamplesLoadByTheirLayout) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  const std::filesystem::path samples = test::test_data_dir() / "weights" / "format_samples";
  for (const char* name : {"state_dict_zip.pth", "state_dict_legacy.pth", "model_zoo_protocol2.pkl",
                           "caffe2_blobs.pkl"}) {
    Named model;
    model.add("backbone.bottom_up.stem.conv1.weight", torch::zeros({16, 3, 7, 7}));
    const LoadReport report = load_weights(model, samples / name);
    EXPECT_EQ(report.loaded, Names{"backbone.bottom_up.stem.conv1.weight"}) << name;
    EXPECT_NE(model.at("backbone.bottom_up.stem.conv1.weight").abs().sum().item<double>(), 0.0)
        << name;
  }
  Named model = small_model(3);
  EXPECT_THROW(load_weights(model, samples / "calls_a_function.pkl"), Error);
}

bool any_case(const nlohmann::json& /*description*/) {
  return true;
}

TEST(LoadWeightsParity, DetectorFilesEqualNpz) {
  int files = 0;
  for (const test::ParityCase& parity : test::parity_cases(any_case)) {
    for (const char* name : {"weights.pth", "weights.pkl"}) {
      if (!std::filesystem::exists(parity.folder / name)) {
        continue;
      }
      SCOPED_TRACE((parity.folder / name).string());
      const test::Npz arrays = test::read_npz(parity.folder / "weights.npz");
      Named model;
      for (const auto& [tensor_name, array] : arrays) {
        model.add(tensor_name, torch::zeros_like(test::to_tensor(array)), true);
      }
      const LoadReport report = load_weights(model, parity.folder / name);
      EXPECT_TRUE(report.missing.empty() && report.unexpected.empty() &&
                  report.reinitialised.empty())
          << report.table();
      for (const std::string& tensor_name : report.loaded) {
        EXPECT_TRUE(model.at(tensor_name).equal(test::to_tensor(arrays.at(tensor_name))))
            << tensor_name;
      }
      ++files;
    }
  }
  if (files == 0) {
    GTEST_SKIP() << "no weights.pth or weights.pkl in the parity folders";
  }
}

}  // namespace
}  // namespace detforge
