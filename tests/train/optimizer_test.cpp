#include "detforge/train/optimizer.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/train/lr_schedule.h"
#include "support/npz.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using Clip = GradientClipOptions::Type;

/// Parameters named like `conv.weight`, made of nested modules, as a detector's are.
class Parameters : public torch::nn::Module {
 public:
  void add(const std::string& name, const Tensor& value) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) {
      register_parameter(name, value.clone());
      return;
    }
    const std::string module_name = name.substr(0, dot);
    const auto children = named_children();
    auto child = children.contains(module_name)
                     ? std::dynamic_pointer_cast<Parameters>(children[module_name])
                     : register_module(module_name, std::make_shared<Parameters>());
    child->add(name.substr(dot + 1), value);
  }
  Tensor operator[](const std::string& name) { return named_parameters()[name]; }
};

Parameters one_weight(const std::vector<float>& values) {
  Parameters model;
  model.add("weight", torch::tensor(values));
  return model;
}

SgdOptions sgd_from_json(const nlohmann::json& solver) {
  SgdOptions options;
  options.nesterov = solver.value("NESTEROV", false);
  options.weight_decay = solver.value("WEIGHT_DECAY", 1e-4);
  options.weight_decay_norm = solver.value("WEIGHT_DECAY_NORM", 0.0);
  options.weight_decay_bias = solver.value("WEIGHT_DECAY_BIAS", -1.0);
  options.bias_lr_factor = solver.value("BIAS_LR_FACTOR", 1.0);
  if (solver.contains("CLIP")) {
    options.clip.type = solver["CLIP"]["CLIP_TYPE"] == "value" ? Clip::kValue : Clip::kNorm;
    options.clip.value = solver["CLIP"]["CLIP_VALUE"];
    options.clip.norm_type = solver["CLIP"].value("NORM_TYPE", 2.0);
  }
  return options;
}

TEST(SgdParity, TwelveStepsEqualDetectron2) {
  const auto cases = test::parity_cases([](const auto& d) { return d.contains("sgd_runs"); });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity_case : cases) {
    const test::Npz arrays = test::read_npz(parity_case.folder / "solver.npz");
    const std::vector<std::string> names = parity_case.description["sgd_params"];
    for (const auto& [run, solver] : parity_case.description["sgd_runs"].items()) {
      Parameters model;
      for (const std::string& name : names) {
        model.add(name, test::to_tensor(arrays.at("sgd/init/" + name)));
      }
      const LrSchedule schedule({.base_lr = solver["BASE_LR"],
                                 .max_iter = solver["MAX_ITER"],
                                 .steps = solver["STEPS"],
                                 .warmup_iters = solver["WARMUP_ITERS"]});
      Sgd sgd(model, sgd_from_json(solver));
      for (std::int64_t step = 0; step < 12; ++step) {
        for (const std::string& name : names) {
          model[name].mutable_grad() =
              test::to_tensor(arrays.at("sgd/grads/" + name))[step].clone();
        }
        sgd.step(schedule.lr(step));
      }
      for (const std::string& name : names) {
        // 12 steps of float32 rounding, each 6e-8 relative.
        EXPECT_TRUE(test::expect_close(model[name].detach(),
                                       test::to_tensor(arrays.at("sgd/" + run + "/" + name)),
                                       {.rtol = 2e-6, .atol = 2e-7}))
            << run << " " << name;
      }
    }
  }
}

TEST(Sgd, TwoStepsByHand) {
  // lr 0.1, momentum 0.5, decay 0.1. Step 1: g = 1 + 0.1*2 = 1.2, v = 1.2, p = 2 - 0.12 = 1.88.
  // Step 2: g = 1 + 0.188 = 1.188, v = 0.6 + 1.188 = 1.788, p = 1.88 - 0.1788 = 1.7012.
  Parameters model = one_weight({2.0f});
  Sgd sgd(model, {.momentum = 0.5, .weight_decay = 0.1});
  for (int step = 0; step < 2; ++step) {
    model["weight"].mutable_grad() = torch::ones({1});
    sgd.step(0.1);
  }
  EXPECT_NEAR(model["weight"].item<float>(), 1.7012f, 1e-6f);
  EXPECT_NEAR(sgd.state()[0].second.item<float>(), 1.788f, 1e-6f);
}

TEST(Sgd, NamesOfNormLayersAreRecognised) {
  for (const char* name : {"backbone.bottom_up.stem.conv1.norm.weight", "backbone.conv1.bn.bias",
                           "bn1.weight", "norm.bias"}) {
    EXPECT_TRUE(is_norm_parameter(name)) << name;
  }
  for (const char* name :
       {"backbone.fpn_lateral2.weight", "conv1.bias", "normal.weight", "norm.conv.weight"}) {
    EXPECT_FALSE(is_norm_parameter(name)) << name;
  }
}

TEST(Sgd, DecaysEachGroupAsConfigured) {
  // Gradient 0 and lr 1: the change of a parameter is exactly its decay. A norm's bias is a bias
  // first.
  Parameters model;
  for (const char* name : {"conv.weight", "conv.bias", "norm.weight", "norm.bias"}) {
    model.add(name, torch::ones({1}));
  }
  Sgd sgd(model, {.momentum = 0,
                  .weight_decay = 0.5,
                  .weight_decay_norm = 0.25,
                  .weight_decay_bias = 0.125,
                  .bias_lr_factor = 2});
  for (const auto& [name, parameter] : sgd.parameters()) {
    model[name].mutable_grad() = torch::zeros({1});
  }
  sgd.step(1.0);
  EXPECT_FLOAT_EQ(model["conv.weight"].item<float>(), 0.5f);
  EXPECT_FLOAT_EQ(model["norm.weight"].item<float>(), 0.75f);
  EXPECT_FLOAT_EQ(model["conv.bias"].item<float>(), 0.75f);
  EXPECT_FLOAT_EQ(model["norm.bias"].item<float>(), 0.75f);
}

TEST(Sgd, FullModelClippingScalesAllGradientsTogether) {
  // Norm of (3, 4) over two parameters is 5, so both are scaled by 1/5.
  Parameters model;
  model.add("a.weight", torch::zeros({1}));
  model.add("b.weight", torch::zeros({1}));
  Sgd sgd(model,
          {.momentum = 0, .weight_decay = 0, .clip = {.type = Clip::kFullModel, .value = 1.0}});
  model["a.weight"].mutable_grad() = torch::full({1}, 3.0f);
  model["b.weight"].mutable_grad() = torch::full({1}, 4.0f);
  EXPECT_DOUBLE_EQ(sgd.gradient_norm().total, 5.0);
  sgd.step(1.0);
  EXPECT_NEAR(model["a.weight"].item<float>(), -0.6f, 1e-6f);
  EXPECT_NEAR(model["b.weight"].item<float>(), -0.8f, 1e-6f);
}

TEST(Sgd, FullModelClippingIsTorchsClipGradNorm) {
  // torch.nn.utils.clip_grad_norm_ scales by min(limit / (norm + 1e-6), 1):
  //   norm 1e-3, limit 5e-4: 5e-4 / 1.001e-3 = 0.4995005;  limit 1e-3: 0.9990010;  limit 2e-3: 1
  for (const auto& [limit, factor] :
       std::vector<std::pair<double, double>>{{5e-4, 0.4995005}, {1e-3, 0.9990010}, {2e-3, 1.0}}) {
    Parameters model = one_weight({0.0f});
    Sgd sgd(model,
            {.momentum = 0, .weight_decay = 0, .clip = {.type = Clip::kFullModel, .value = limit}});
    model["weight"].mutable_grad() = torch::full({1}, 1e-3f);
    sgd.step(1.0);
    EXPECT_NEAR(model["weight"].item<double>(), -1e-3 * factor, 1e-9) << limit;
  }
}

TEST(Sgd, InfinityNormClipsByTheLargestElement) {
  Parameters model = one_weight({0.0f, 0.0f, 0.0f});
  Sgd sgd(model, {.momentum = 0,
                  .weight_decay = 0,
                  .clip = {.type = Clip::kNorm,
                           .value = 1.0,
                           .norm_type = std::numeric_limits<double>::infinity()}});
  model["weight"].mutable_grad() = torch::tensor({-4.0f, 2.0f, 1.0f});
  sgd.step(1.0);
  EXPECT_TRUE(test::expect_close(model["weight"].detach(), torch::tensor({1.0f, -0.5f, -0.25f}),
                                 {.rtol = 1e-6}));
}

TEST(Sgd, GradientNormOfLargeTensorsEqualsTorchAndShowsOneNan) {
  torch::manual_seed(1);
  Parameters model;
  model.add("weight", torch::zeros({300, 517}));
  Sgd sgd(model, {});
  model["weight"].mutable_grad() = torch::randn({300, 517});
  const double expected = model["weight"].grad().to(torch::kDouble).norm().item<double>();
  EXPECT_NEAR(sgd.gradient_norm().total, expected, 1e-12 * expected);
  model["weight"].mutable_grad()[299][516] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(sgd.gradient_norm().total));
}

TEST(Sgd, GradientOfAnotherMemoryLayoutIsApplied) {
  Parameters model;
  model.add("weight", torch::zeros({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast));
  Sgd sgd(model, {.momentum = 0, .weight_decay = 0});
  const Tensor gradient = torch::arange(120, torch::kFloat).view({2, 3, 4, 5});
  model["weight"].mutable_grad() = gradient;
  sgd.step(1.0);
  EXPECT_TRUE(test::expect_close(model["weight"].detach(), -gradient, {}));
}

TEST(SgdProperty, ResultDoesNotDependOnTheNumberOfThreads) {
  std::vector<Tensor> results;
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    torch::manual_seed(2);
    Parameters model;
    model.add("weight", torch::randn({100, 1001}));
    Sgd sgd(model, {.clip = {.type = Clip::kFullModel, .value = 0.1}});
    model["weight"].mutable_grad() = torch::randn({100, 1001});
    sgd.step(0.1);
    results.push_back(model["weight"].detach().clone());
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

TEST(Sgd, SkipsFrozenParameters) {
  Parameters model;
  model.add("a.weight", torch::ones({1}));
  model.add("b.weight", torch::ones({1}));
  model["a.weight"].set_requires_grad(false);
  const Sgd sgd(model, {});
  ASSERT_EQ(sgd.parameters().size(), 1u);
  EXPECT_EQ(sgd.parameters()[0].first, "b.weight");
}

TEST(Sgd, NamesAParameterWithoutGradient) {
  Parameters model = one_weight({1.0f});
  Sgd sgd(model, {});
  try {
    sgd.step(0.1);
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("parameter weight got no gradient"), std::string::npos)
        << error.what();
  }
}

TEST(Sgd, StateGoesIntoAnotherOptimizerAndMustFit) {
  Parameters model = one_weight({1.0f, 2.0f});
  Sgd sgd(model, {});
  model["weight"].mutable_grad() = torch::tensor({0.5f, -1.0f});
  sgd.step(0.1);
  Sgd other(model, {});
  other.load_state(sgd.state());
  EXPECT_TRUE(torch::equal(other.state()[0].second, sgd.state()[0].second));
  EXPECT_THROW(other.load_state({}), Error);
  EXPECT_THROW(other.load_state({{"weight", torch::zeros({3})}}), Error);
  EXPECT_THROW(other.load_state({{"bias", torch::zeros({2})}}), Error);
}

}  // namespace
}  // namespace detforge
