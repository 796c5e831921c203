#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/ops/add_maps.h"
#include "detforge/ops/batch_norm.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/fold_norm.h"
#include "detforge/ops/group_norm.h"
#include "detforge/ops/map_type.h"
#include "detforge/ops/max_pool.h"
#include "detforge/ops/roi_align.h"
#include "detforge/ops/upsample.h"
#include "support/torch/naive_ops.h"
#include "support/torch/tensors.h"

/// Maps of 16 bits: what every op gives and its gradients, against the same op in f64 on the same
/// (rounded) values.
namespace detforge {
namespace {

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

std::vector<const cpu::ConvKernels*> builds() {
  std::vector<const cpu::ConvKernels*> found;
  for (const cpu::ConvKernels* build : {cpu::avx2_conv_kernels(), cpu::avx512_conv_kernels()}) {
    if (build != nullptr) {
      found.push_back(build);
    }
  }
  return found;
}

cpu::Storage storage_of(at::ScalarType type) {
  return type == at::kHalf ? cpu::Storage::kHalf : cpu::Storage::kBFloat16;
}

TEST(HalfConversions, EveryValueOf16BitsIsReadAsLibTorchReadsIt) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<std::uint16_t>(i);
  }
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const Tensor expected = torch::from_blob(bits.data(), {65536}, type).to(at::kFloat);
    for (const cpu::ConvKernels* build : builds()) {
      for (const std::int64_t count : {65536L, 65533L}) {  // with a last part of a vector
        Tensor actual = torch::zeros({65536});
        build->load_values({bits.data(), storage_of(type)}, count, actual.data_ptr<float>());
        for (std::int64_t i = 0; i < count; ++i) {
          const float a = actual.data_ptr<float>()[i], e = expected.data_ptr<float>()[i];
          ASSERT_TRUE(a == e || (std::isnan(a) && std::isnan(e))) << build->name << ' ' << i;
        }
      }
    }
  }
}

TEST(HalfConversions, FloatsAreRoundedToTheNearestWithTiesToEven) {
  std::vector<float> values{
      0.0F,
      -0.0F,
      1.0F + 0x1p-11F,  // a tie in f16
      1.0F + 0x3p-11F,
      1.0F + 0x1p-8F,  // a tie in bf16
      1.0F + 0x3p-8F,
      65504.0F,
      65519.0F,  // the last that f16 rounds down
      65520.0F,  // and the first that becomes infinite
      1e-7F,     // a subnormal f16
      1e-9F,
      std::numeric_limits<float>::max(),
      std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(),
      std::bit_cast<float>(0x7F800001U)};  // a NaN whose upper half is infinity
  torch::manual_seed(1);
  const Tensor random = torch::randn({4001}) * torch::randn({4001}).mul(5).exp();
  values.insert(values.end(), random.data_ptr<float>(), random.data_ptr<float>() + 4001);
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor floats = torch::tensor(values);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const Tensor expected = floats.to(type).to(at::kFloat);
    for (const cpu::ConvKernels* build : builds()) {
      const Tensor actual = torch::zeros({count + 1}, type);
      build->store_values(floats.data_ptr<float>(), count, {actual.data_ptr(), storage_of(type)});
      const Tensor widened = actual.to(at::kFloat);
      for (std::int64_t i = 0; i < count; ++i) {
        const float a = widened.data_ptr<float>()[i], e = expected.data_ptr<float>()[i];
        ASSERT_TRUE((a == e && std::signbit(a) == std::signbit(e)) ||
                    (std::isnan(a) && std::isnan(e)))
            << build->name << ' ' << values[static_cast<std::size_t>(i)] << ": " << a << ", not "
            << e;
      }
      EXPECT_EQ(widened[count].item<float>(), 0.0F) << "written behind the end";
    }
  }
}

using Tensors = std::vector<Tensor>;

/// One op: tensors of which the first are maps (stored as the test says), the others parameters.
struct HalfOp {
  std::string name;
  std::vector<std::vector<std::int64_t>> maps, parameters;
  std::function<Tensor(const Tensors&)> run;
  bool parameters_are_half = true;  ///< weights of O2; norms stay f32
};

Tensor frozen_conv(const std::vector<Tensor>& t) {
  const Tensor mean = torch::full({t[2].size(0)}, 0.3, t[2].options());
  const FoldedConv folded = fold_frozen_norm(
      t[1], {}, {.gamma = t[2], .beta = t[3], .running_mean = mean, .running_var = mean + 0.5});
  // No ReLU: a folded weight's rounding moves values across 0, whose gradients then differ in full.
  return conv2d(t[0], folded.weight, folded.bias, Conv2dOptions{});
}

Tensor pooled_rois(const std::vector<Tensor>& t, bool contiguous) {
  const Tensor rois = torch::tensor({{0.0F, 1.3F, 2.1F, 40.7F, 30.2F},
                                     {1.0F, 10.0F, 5.0F, 60.0F, 60.0F},
                                     {1.0F, -9.0F, -9.0F, 8.0F, 90.0F},
                                     {0.0F, 500.0F, 500.0F, 600.0F, 600.0F}});  // off the map
  const Tensor levels = torch::tensor({0, 1, 0, 1}, torch::kLong);
  return roi_align_pyramid({{t[0], 0.25}, {t[1], 0.125}}, rois, levels,
                           {.output_size = {7, 7}, .contiguous = contiguous});
}

std::vector<HalfOp> half_ops() {
  const Conv2dOptions same{.padding = {1, 1}},
      relu{.padding = {1, 1}, .activation = Activation::kRelu};
  const Conv2dOptions down{
      .stride = {2, 2}, .padding = {1, 1}, .activation = Activation::kLeakyRelu};
  return {
      {"conv 3x3 (Winograd)",
       {{2, 32, 21, 18}},
       {{32, 32, 3, 3}, {32}},
       [=](const Tensors& t) { return conv2d(t[0], t[1], t[2], relu); }},
      {"conv 3x3, residual",
       {{1, 32, 9, 9}, {1, 64, 9, 9}},
       {{64, 32, 3, 3}, {64}},
       [=](const Tensors& t) { return conv2d(t[0], t[2], t[3], relu, t[1]); }},
      {"conv 3x3, few channels",
       {{2, 3, 15, 14}},
       {{7, 3, 3, 3}, {7}},
       [=](const Tensors& t) { return conv2d(t[0], t[1], t[2], same); }},
      {"conv 3x3, stride 2",
       {{2, 24, 15, 14}},
       {{40, 24, 3, 3}, {40}},
       [=](const Tensors& t) { return conv2d(t[0], t[1], t[2], down); }},
      {"conv 1x1",
       {{2, 48, 13, 14}},
       {{72, 48, 1, 1}, {72}},
       [](const Tensors& t) { return conv2d(t[0], t[1], t[2], Conv2dOptions{}); }},
      {"conv 1x1, groups",
       {{2, 8, 5, 6}},
       {{8, 4, 1, 1}, {8}},
       [](const Tensors& t) { return conv2d(t[0], t[1], t[2], Conv2dOptions{.groups = 2}); }},
      {"conv and its input",
       {{2, 16, 13, 14}},
       {{24, 16, 1, 1}, {24}},
       [](const Tensors& t) {
         const auto [output, input] = conv2d_and_input(t[0], t[1], t[2], {});
         return torch::cat({output.flatten(), input.flatten()});
       }},
      {"transposed conv",
       {{3, 16, 7, 7}},
       {{16, 24, 2, 2}, {24}},
       [](const Tensors& t) {
         return conv_transpose2d(t[0], t[1], t[2],
                                 {.stride = {2, 2}, .activation = Activation::kRelu});
       }},
      {"linear",
       {{19, 90}},
       {{33, 90}, {33}},
       [](const Tensors& t) { return linear(t[0], t[1], t[2], Activation::kRelu); }},
      {"conv at a channel",
       {{3, 40, 14, 14}},
       {{5, 40, 1, 1}, {5}},
       [](const Tensors& t) {
         return conv1x1_at_channel(t[0], t[1], t[2], torch::tensor({4, 0, 4}, torch::kLong));
       }},
      {"frozen norm, folded", {{2, 24, 12, 12}}, {{40, 24, 1, 1}, {40}, {40}}, frozen_conv, false},
      {"group norm",
       {{2, 64, 20, 13}, {2, 64, 20, 13}},
       {{64}, {64}},
       [](const Tensors& t) {
         return group_norm(t[0], t[2], t[3], {.activation = Activation::kRelu}, t[1]);
       },
       false},
      {"batch norm",
       {{3, 24, 11, 13}},
       {{24}, {24}},
       [](const Tensors& t) {
         return batch_norm(t[0], t[1], t[2], torch::zeros({24}, t[1].options()),
                           torch::ones({24}, t[1].options()),
                           {.activation = Activation::kLeakyRelu});
       },
       false},
      {"max pool",
       {{2, 24, 15, 18}},
       {},
       [](const Tensors& t) {
         return max_pool(t[0], {.kernel = 3, .stride = 2, .padding = 1, .relu = true});
       }},
      {"upsample", {{2, 24, 5, 7}}, {}, [](const Tensors& t) { return upsample_twice(t[0]); }},
      {"upsample and add",
       {{2, 24, 5, 7}, {2, 24, 10, 14}},
       {},
       [](const Tensors& t) { return upsample_add_(t[1] * 1, t[0]); }},
      {"upsample and join",
       {{2, 24, 5, 7}, {2, 40, 10, 14}},
       {},
       [](const Tensors& t) { return upsample_concat(t[0], t[1]); }},
      {"ROIAlign",
       {{2, 40, 16, 17}, {2, 40, 8, 9}},
       {},
       [](const Tensors& t) { return pooled_rois(t, false); }},
      {"ROIAlign to rows",
       {{2, 40, 16, 17}, {2, 40, 8, 9}},
       {},
       [](const Tensors& t) { return pooled_rois(t, true); }},
      {"add",
       {{2, 24, 15, 18}, {2, 24, 15, 18}},
       {},
       [](const Tensors& t) { return add_maps(t[0], t[1]); }},
  };
}

struct Result {
  Tensor output;
  std::vector<Tensor> gradients;
};

/// `direction`: the gradient of the output, made by the first run.
Result run(const HalfOp& op, const std::vector<Tensor>& tensors, Tensor& direction) {
  std::vector<Tensor> leaves;
  for (const Tensor& tensor : tensors) {
    leaves.push_back(tensor.detach().clone().requires_grad_());
  }
  const Tensor output = op.run(leaves);
  if (!direction.defined()) {
    direction = torch::randn(output.sizes()).to(output.scalar_type());
  }
  const auto gradients =
      torch::autograd::grad({output}, leaves, {direction.to(output.scalar_type())});
  return {output.detach(), gradients};
}

/// The tensors of an op, rounded to `type` where it keeps them so.
std::vector<Tensor> tensors_of(const HalfOp& op, at::ScalarType type) {
  std::vector<Tensor> tensors;
  for (const auto& size : op.maps) {
    const Tensor map = torch::randn(size).to(type);
    tensors.push_back(size.size() == 4 ? map.contiguous(kLast) : map);
  }
  for (const auto& size : op.parameters) {
    const Tensor parameter = torch::randn(size);
    const bool is_weight = size.size() > 1;
    tensors.push_back(op.parameters_are_half || is_weight ? parameter.to(type) : parameter);
  }
  return tensors;
}

bool is_roi_align(const HalfOp& op) {
  return op.name.starts_with("ROIAlign");  // has no f64: f32 is the reference, naive_ops.h its own
}

TEST(HalfOps, ValuesAndGradientsEqualF64ButForTheRoundingOfTheirStorage) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    // Results are rounded once on their way into memory, to 11 or 8 bits: relative errors up to
    // 2^-11 or 2^-8. Twice as much where an activation's or a folded weight's rounding comes
    // before.
    const double bound = type == at::kHalf ? 1e-3 : 8e-3;
    for (const HalfOp& op : half_ops()) {
      torch::manual_seed(3);
      const std::vector<Tensor> tensors = tensors_of(op, type);
      Tensor direction;
      const Result actual = run(op, tensors, direction);
      std::vector<Tensor> reference;
      for (const Tensor& tensor : tensors) {
        reference.push_back(tensor.to(is_roi_align(op) ? at::kFloat : at::kDouble));
      }
      const Result expected = run(op, reference, direction);
      EXPECT_TRUE(test::expect_close_l2(actual.output.to(at::kDouble),
                                        expected.output.to(at::kDouble), bound))
          << op.name << ' ' << map_type_name(type);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(actual.gradients[i].scalar_type(), tensors[i].scalar_type()) << op.name << i;
        EXPECT_TRUE(test::expect_close_l2(actual.gradients[i].to(at::kDouble),
                                          expected.gradients[i].to(at::kDouble), bound))
            << op.name << ' ' << map_type_name(type) << ", gradient " << i;
      }
    }
  }
}

TEST(HalfOps, GradientsAreThoseOfFiniteDifferencesInF64) {
  for (const HalfOp& op : half_ops()) {
    if (is_roi_align(op)) {
      continue;  // linear: the test above says as much
    }
    torch::manual_seed(4);
    const std::vector<Tensor> tensors = tensors_of(op, at::kHalf);
    Tensor direction;
    const Result actual = run(op, tensors, direction);
    std::vector<Tensor> exact;
    for (const Tensor& tensor : tensors) {
      exact.push_back(tensor.to(at::kDouble));
    }
    const auto value = [&](std::size_t i, const Tensor& step, double size) {
      const torch::NoGradGuard no_grad;
      std::vector<Tensor> moved = exact;
      moved[i] = exact[i] + step * size;
      return (op.run(moved) * direction.to(at::kDouble)).sum().item<double>();
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor gradient = actual.gradients[i].to(at::kDouble);
      const double size = gradient.norm().item<double>();
      // Along the gradient, where nothing cancels, and along directions that it does not choose.
      std::vector<Tensor> steps{gradient / size};
      for (int k = 0; k < 3; ++k) {
        const Tensor step = torch::randn(gradient.sizes(), at::kDouble);
        steps.push_back(step / step.norm());
      }
      for (const Tensor& step : steps) {
        constexpr double kSize = 1e-6;
        const double measured = (value(i, step, kSize) - value(i, step, -kSize)) / (2 * kSize);
        EXPECT_NEAR(measured, (gradient * step).sum().item<double>(), 2e-3 * size)
            << op.name << ", gradient " << i;
      }
    }
  }
}

TEST(HalfOps, OutputsHaveTheTypeOfTheInput) {
  torch::manual_seed(5);
  for (const HalfOp& op : half_ops()) {
    const std::vector<Tensor> tensors = tensors_of(op, at::kHalf);
    const at::ScalarType wanted = op.name == "conv at a channel" ? at::kFloat : at::kHalf;
    EXPECT_EQ(op.run(tensors).scalar_type(), wanted) << op.name;
  }
}

TEST(HalfOps, ThreadsDoNotChangeTheBits) {
  const int before = at::get_num_threads();
  for (const HalfOp& op : half_ops()) {
    torch::manual_seed(6);
    const std::vector<Tensor> tensors = tensors_of(op, at::kHalf);
    Tensor direction;
    at::set_num_threads(1);
    const Result one = run(op, tensors, direction);
    at::set_num_threads(3);
    const Result three = run(op, tensors, direction);
    EXPECT_TRUE(torch::equal(one.output.to(at::kFloat), three.output.to(at::kFloat))) << op.name;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(torch::equal(one.gradients[i].to(at::kFloat), three.gradients[i].to(at::kFloat)))
          << op.name << i;
    }
  }
  at::set_num_threads(before);
}

TEST(HalfOps, AnOverflowIsInfiniteAndStaysVisible) {
  // 2 x 40000 does not fit into f16; ReLU and further layers must not hide it.
  const Tensor input = torch::full({1, 16, 6, 6}, 200.0).to(at::kHalf).contiguous(kLast);
  const Tensor weight = torch::full({16, 16, 1, 1}, 25.0).to(at::kHalf);
  const Tensor output =
      detforge::conv2d(input, weight, Tensor(), Conv2dOptions{.activation = Activation::kRelu});
  EXPECT_TRUE(output.to(at::kFloat).isinf().all().item<bool>());
  const Tensor next = detforge::conv2d(output, torch::full({16, 16, 1, 1}, -1.0).to(at::kHalf),
                                       Tensor(), Conv2dOptions{});
  EXPECT_FALSE(next.to(at::kFloat).isfinite().any().item<bool>());
}

TEST(MapType, ConversionsKeepTheLayoutAndReturnTheGradient) {
  const Tensor map = torch::randn({2, 8, 5, 6}).contiguous(kLast).requires_grad_();
  const Tensor half = to_map_type(map, at::kHalf);
  EXPECT_TRUE(half.is_contiguous(kLast));
  EXPECT_TRUE(torch::equal(half.to(at::kFloat), map.to(at::kHalf).to(at::kFloat)));
  const auto gradient = torch::autograd::grad({half}, {map}, {torch::full_like(half, 0.5)})[0];
  EXPECT_EQ(gradient.scalar_type(), at::kFloat);
  EXPECT_TRUE(torch::equal(gradient, torch::full_like(map, 0.5)));
  EXPECT_TRUE(to_map_type(half, at::kHalf).is_same(half));
  EXPECT_FALSE(widen({}).defined());
}

}  // namespace
}  // namespace detforge
