#include "detforge/ops/roi_align.h"

#include <limits>
#include <tuple>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/roi_align_geometry.h"
#include "detforge/ops/cpu/roi_align_kernel.h"
#include "support/test_data.h"
#include "support/torch/naive_ops.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Tensor rois_of(const std::vector<std::array<float, 5>>& rows) {
  Tensor rois = torch::empty({static_cast<std::int64_t>(rows.size()), 5});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), rois.data_ptr<float>() + i * 5);
  }
  return rois;
}

/// Inside, across each border, outside, tiny, empty, inverted, the whole map, far larger than the
/// map.
Tensor awkward_rois() {
  return rois_of({{0, 10, 8, 50, 40},
                  {1, -20, -10, 30, 30},
                  {0, 60, 40, 120, 90},
                  {1, 500, 500, 600, 600},
                  {0, 20.3F, 20.7F, 20.9F, 21.1F},
                  {1, 30, 30, 30, 50},
                  {0, 50, 40, 20, 10},
                  {1, 0, 0, 80, 64},
                  {0, -400, -300, 700, 900},
                  {1, 79, 63, 81, 65},
                  {1, 10, 8, 50, 40}});
}

std::vector<RoiAlignOptions> option_sets() {
  std::vector<RoiAlignOptions> sets;
  for (const bool aligned : {true, false}) {
    for (const int ratio : {0, 1, 2, 3}) {
      sets.push_back({.output_size = {7, 5},
                      .spatial_scale = 0.25,
                      .sampling_ratio = ratio,
                      .aligned = aligned});
    }
  }
  return sets;
}

TEST(RoiAlign, RampByHand) {
  // feature(y, x) = 10 y + x on 5x5. ROI 1..3 aligned is cells 0.5..2.5; one bin, 2x2 samples
  // at 1.0 and 2.0: mean of x is 1.5 and of y is 1.5, and a ramp is interpolated exactly: 16.5.
  const Tensor ramp =
      (torch::arange(5).view({5, 1}) * 10 + torch::arange(5)).to(torch::kFloat).view({1, 1, 5, 5});
  const Tensor rois = rois_of({{0, 1, 1, 3, 3}});
  const Tensor aligned = roi_align(ramp, rois, {.output_size = {1, 1}, .sampling_ratio = 2});
  EXPECT_NEAR(aligned.item<float>(), 16.5F, 1e-5F);
  // Not aligned: cells 1..3, samples at 1.5 and 2.5, mean 2: 22.
  const Tensor legacy =
      roi_align(ramp, rois, {.output_size = {1, 1}, .sampling_ratio = 2, .aligned = false});
  EXPECT_NEAR(legacy.item<float>(), 22.0F, 1e-5F);
}

TEST(RoiAlign, ConstantMapPoolsToTheConstant) {
  const Tensor features = torch::full({1, 3, 16, 16}, 2.5F);
  const Tensor pooled =
      roi_align(features, rois_of({{0, 3.3F, 4.4F, 40.1F, 29.9F}}), {.spatial_scale = 0.25});
  EXPECT_TRUE(expect_close(pooled, torch::full({1, 3, 7, 7}, 2.5F), {.rtol = 1e-6}));
}

TEST(RoiAlign, SamplesBeyondTheBorderAreZeroAndOnItAreClamped) {
  const Tensor features = torch::ones({1, 1, 4, 4});
  const RoiAlignOptions one{.output_size = {1, 1}, .sampling_ratio = 1, .aligned = false};
  // The single sample sits at the centre of the box: -1 and 4 still read the border, -1.01 and 4.01
  // do not.
  const Tensor rois =
      rois_of({{0, -2, 1, 0, 3}, {0, 3, 1, 5, 3}, {0, -2.02F, 1, 0, 3}, {0, 3, 1, 5.02F, 3}});
  EXPECT_TRUE(expect_close(roi_align(features, rois, one).flatten(),
                           torch::tensor({1.F, 1.F, 0.F, 0.F}), {}));
}

TEST(RoiAlign, EqualsNaiveSamplingForwardAndBackward) {
  torch::manual_seed(1);
  const Tensor features = torch::randn({2, 6, 16, 20}), rois = awkward_rois();
  for (const RoiAlignOptions& options : option_sets()) {
    for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const Tensor input = features.clone(layout).requires_grad_();
      const Tensor pooled = roi_align(input, rois, options);
      EXPECT_TRUE(pooled.is_contiguous(layout));
      EXPECT_TRUE(expect_close(pooled, test::naive_roi_align(features, rois, options),
                               {.rtol = 1e-5, .atol = 1e-5}));
      const Tensor grad = torch::randn(pooled.sizes());
      const Tensor actual = torch::autograd::grad({pooled}, {input}, {grad})[0];
      EXPECT_TRUE(actual.is_contiguous(layout));
      EXPECT_TRUE(expect_close(
          actual, test::naive_roi_align_backward(grad, features.sizes().vec(), rois, options),
          {.rtol = 1e-5, .atol = 1e-5}));
    }
  }
}

TEST(RoiAlign, ManyChannelsAndSmallMapsEqualNaiveSampling) {
  torch::manual_seed(2);
  for (const auto& [channels, height, width] :
       std::vector<std::array<std::int64_t, 3>>{{130, 5, 9}, {1, 1, 1}, {3, 1, 7}}) {
    const Tensor features = torch::randn({2, channels, height, width});
    const Tensor rois = awkward_rois();
    const RoiAlignOptions options{.output_size = {2, 3}, .spatial_scale = 0.1};
    const Tensor expected = test::naive_roi_align(features, rois, options);
    for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      EXPECT_TRUE(expect_close(roi_align(features.contiguous(layout), rois, options), expected,
                               {.rtol = 1e-5, .atol = 1e-5}));
    }
  }
}

TEST(RoiAlign, ReadsStridedFeaturesAndExpandedGradients) {
  torch::manual_seed(3);
  const Tensor wide = torch::randn({2, 12, 16, 20}).requires_grad_();
  const Tensor rois = awkward_rois();
  const Tensor pooled = roi_align(wide.slice(1, 0, 12, 2), rois, {.spatial_scale = 0.25});
  EXPECT_TRUE(torch::equal(
      pooled, roi_align(wide.slice(1, 0, 12, 2).contiguous(), rois, {.spatial_scale = 0.25})));
  const Tensor grad = torch::autograd::grad({pooled.sum()}, {wide})[0];
  EXPECT_EQ(grad.slice(1, 1, 12, 2).abs().max().item<float>(), 0.0F);
  EXPECT_GT(grad.slice(1, 0, 12, 2).abs().max().item<float>(), 0.0F);
}

TEST(RoiAlign, NoRoisGiveEmptyResultAndZeroGradient) {
  const Tensor features = torch::randn({1, 4, 8, 8}).requires_grad_();
  const Tensor pooled = roi_align(features, torch::empty({0, 5}), {});
  EXPECT_EQ(pooled.sizes(), (std::vector<std::int64_t>{0, 4, 7, 7}));
  EXPECT_TRUE(expect_close(torch::autograd::grad({pooled.sum()}, {features})[0],
                           torch::zeros_like(features), {}));
}

TEST(RoiAlign, AbsurdlyLargeRoiEndsAtOnce) {
  const Tensor features = torch::ones({1, 1, 8, 8});
  const Tensor pooled = roi_align(features, rois_of({{0, -1e30F, -1e9F, 1e30F, 1e9F}}), {});
  EXPECT_TRUE(pooled.isfinite().all().item<bool>());
}

TEST(RoiAlign, SampleRangeOfAbsurdNumbersIsEmpty) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [start, step, samples] :
       {std::tuple{0.0, nan, 0.0}, {nan, 1.0, 4.0}, {-1e300, 1.0, 1e300}, {1e300, 1.0, 1e300}}) {
    const auto range = cpu::roi_align_detail::samples_inside(start, step, samples, 10);
    EXPECT_EQ(range.begin, range.end) << start << " " << step << " " << samples;
  }
}

TEST(RoiAlign, RefusesWhatItCannotPool) {
  const Tensor features = torch::ones({1, 1, 8, 8});
  EXPECT_THROW(roi_align(features, rois_of({{1, 0, 0, 4, 4}}), {}), Error);
  EXPECT_THROW(roi_align(features, rois_of({{-1, 0, 0, 4, 4}}), {}), Error);
  EXPECT_THROW(roi_align(features, rois_of({{NAN, 0, 0, 4, 4}}), {}), Error);
  EXPECT_THROW(roi_align(features, rois_of({{0, 0, NAN, 4, 4}}), {}), Error);
  EXPECT_THROW(roi_align(features, torch::ones({2, 4}), {}), Error);
  EXPECT_THROW(roi_align(features.to(torch::kDouble), torch::zeros({1, 5}), {}), Error);
  EXPECT_THROW(roi_align(torch::ones({1, 1, 0, 8}), torch::zeros({1, 5}), {}), Error);
  EXPECT_THROW(roi_align(features, torch::zeros({1, 5}), {.output_size = {0, 7}}), Error);
  EXPECT_THROW(roi_align(features, torch::zeros({1, 5}), {.sampling_ratio = -1}), Error);
}

TEST(RoiAlignProperty, BothKernelBuildsGiveTheSameBits) {
  torch::manual_seed(4);
  const Tensor rois = awkward_rois();
  const cpu::RoiAlignGeometry geometry{.height = 16,
                                       .width = 20,
                                       .bins_y = 7,
                                       .bins_x = 7,
                                       .spatial_scale = 0.25F,
                                       .sampling_ratio = 0,
                                       .aligned = true};
  for (const auto layout : {cpu::MapLayout::kNchw, cpu::MapLayout::kNhwc}) {
    const cpu::RoiAlignShape shape{.levels = {geometry},
                                   .images = 2,
                                   .channels = 70,
                                   .roi_count = rois.size(0),
                                   .maps = layout,
                                   .pooled = layout};
    const Tensor features = torch::randn({2 * 70 * 16 * 20}),
                 grad = torch::randn({rois.size(0) * 70 * 49});
    const auto run = [&](cpu::KernelBuild build) {
      Tensor pooled = torch::empty_like(grad), grad_features = torch::empty_like(features);
      const cpu::RoiList list{rois.data_ptr<float>(), nullptr};
      cpu::roi_align_forward(shape, {features.data_ptr<float>()}, list, pooled.data_ptr<float>(),
                             build);
      cpu::roi_align_backward(shape, grad.data_ptr<float>(), list,
                              {grad_features.data_ptr<float>()}, build);
      return torch::cat({pooled, grad_features});
    };
    EXPECT_TRUE(torch::equal(run(cpu::KernelBuild::kPortable), run(cpu::best_kernel_build())));
  }
}

TEST(RoiAlignProperty, AnyThreadCountGivesTheSameBits) {
  torch::manual_seed(5);
  const Tensor features = torch::randn({2, 70, 32, 40}).requires_grad_();
  const Tensor corners = torch::rand({200, 2}) * 100;
  const Tensor rois = torch::cat({torch::randint(0, 2, {200, 1}).to(torch::kFloat), corners,
                                  corners + torch::rand({200, 2}) * 60},
                                 1);
  const Tensor grad = torch::randn({200, 70, 7, 7});
  for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto run = [&](int threads) {
      at::set_num_threads(threads);
      const Tensor pooled = roi_align(features.contiguous(layout), rois, {.spatial_scale = 0.25});
      const Tensor gradient = torch::autograd::grad({pooled}, {features}, {grad})[0];
      return std::vector<Tensor>{pooled, gradient};
    };
    const int before = at::get_num_threads();
    const auto one = run(1), two = run(2), five = run(5);
    at::set_num_threads(before);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(torch::equal(one[i], two[i])) << i;
      EXPECT_TRUE(torch::equal(one[i], five[i])) << i;
    }
  }
}

TEST(RoiAlignProperty, BackwardIsTheAdjointOfForward) {
  // Pooling is linear in the features, so its gradient is its adjoint: <pool(x), g> = <x,
  // backward(g)>.
  torch::manual_seed(6);
  const Tensor features = torch::randn({2, 8, 16, 20}).requires_grad_();
  const Tensor pooled = roi_align(features, awkward_rois(), {.spatial_scale = 0.25});
  const Tensor grad = torch::randn(pooled.sizes());
  const Tensor gradient = torch::autograd::grad({pooled}, {features}, {grad})[0];
  const auto dot = [](const Tensor& a, const Tensor& b) {
    return (a.detach().to(torch::kDouble) * b.detach().to(torch::kDouble)).sum().item<double>();
  };
  EXPECT_NEAR(dot(pooled, grad), dot(features, gradient), 1e-3);
}

/// Two levels of 2 images and ROIs on both, some of them off the map.
struct PyramidCase {
  std::vector<RoiAlignLevel> pyramid;
  Tensor rois = awkward_rois();
  Tensor levels = torch::arange(rois.size(0)).remainder(2);

  PyramidCase(std::int64_t channels, at::MemoryFormat layout) {
    torch::manual_seed(7);
    pyramid.push_back({torch::randn({2, channels, 70, 20}), 0.5});
    pyramid.push_back({torch::randn({2, channels, 35, 10}), 0.25});
    for (RoiAlignLevel& level : pyramid) {
      level.features = level.features.contiguous(layout).requires_grad_();
    }
  }
  std::vector<Tensor> maps() const { return {pyramid[0].features, pyramid[1].features}; }
};

TEST(RoiAlignPyramid, EqualsEachLevelAloneInEveryLayout) {
  for (const std::int64_t channels : {1, 6, 130}) {
    for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const PyramidCase c(channels, layout);
      std::vector<Tensor> alone, positions;
      for (std::int64_t level = 0; level < 2; ++level) {
        const auto& [features, scale] = c.pyramid[static_cast<std::size_t>(level)];
        positions.push_back(c.levels.eq(level).nonzero().squeeze(1));
        alone.push_back(roi_align(features, c.rois.index_select(0, positions.back()),
                                  {.spatial_scale = scale}));
      }
      const Tensor expected = torch::cat(alone).index_select(0, torch::cat(positions).argsort());
      const Tensor grad = torch::randn(expected.sizes());
      const auto expected_grads = torch::autograd::grad({expected}, c.maps(), {grad});
      for (const bool contiguous : {false, true}) {
        const Tensor pooled =
            roi_align_pyramid(c.pyramid, c.rois, c.levels, {.contiguous = contiguous});
        EXPECT_TRUE(pooled.is_contiguous(contiguous ? at::MemoryFormat::Contiguous : layout));
        EXPECT_TRUE(torch::equal(pooled, expected));
        const auto grads = torch::autograd::grad({pooled}, c.maps(), {grad});
        for (std::size_t level = 0; level < 2; ++level) {
          EXPECT_TRUE(grads[level].is_contiguous(layout));
          EXPECT_TRUE(torch::equal(grads[level], expected_grads[level])) << level;
        }
      }
    }
  }
}

TEST(RoiAlignPyramid, LevelWithoutRoisGetsZeroGradient) {
  const PyramidCase c(3, at::MemoryFormat::ChannelsLast);
  const Tensor pooled = roi_align_pyramid(c.pyramid, c.rois, torch::zeros_like(c.levels), {});
  const auto grads = torch::autograd::grad({pooled.sum()}, c.maps());
  EXPECT_GT(grads[0].abs().max().item<float>(), 0.0F);
  EXPECT_TRUE(torch::equal(grads[1], torch::zeros_like(grads[1])));
}

TEST(RoiAlignPyramid, RefusesLevelsThatDoNotExistAndMapsThatDoNotFit) {
  PyramidCase c(3, at::MemoryFormat::Contiguous);
  EXPECT_THROW(roi_align_pyramid(c.pyramid, c.rois, c.levels + 1, {}), Error);
  EXPECT_THROW(roi_align_pyramid(c.pyramid, c.rois, c.levels - 1, {}), Error);
  EXPECT_THROW(roi_align_pyramid(c.pyramid, c.rois, c.levels.slice(0, 1), {}), Error);
  EXPECT_THROW(roi_align_pyramid({}, c.rois, c.levels, {}), Error);
  c.pyramid[1].features = torch::randn({2, 4, 35, 10});
  EXPECT_THROW(roi_align_pyramid(c.pyramid, c.rois, c.levels, {}), Error);
}

TEST(RoiAlignParity, EqualsDetectron2ForwardAndBackward) {
  const auto cases = test::parity_cases(
      [](const nlohmann::json& d) { return d.value("case", "") == "unit_roi_align"; });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    const test::Npz arrays = test::read_npz(parity.folder / "roi_align.npz");
    const Tensor features = test::to_tensor(arrays.at("input")),
                 rois = test::to_tensor(arrays.at("rois"));
    for (const auto& [name, variant] : parity.description.at("variants").items()) {
      const std::int64_t size = variant.at("output");
      const RoiAlignOptions options{.output_size = {size, size},
                                    .spatial_scale = variant.at("spatial_scale"),
                                    .sampling_ratio = variant.at("sampling_ratio"),
                                    .aligned = variant.at("aligned")};
      for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const Tensor input = features.clone(layout).requires_grad_();
        const Tensor pooled = roi_align(input, rois, options);
        EXPECT_TRUE(expect_close(pooled, test::to_tensor(arrays.at(name + "/out")),
                                 {.rtol = 1e-5, .atol = 1e-5}))
            << name;
        const Tensor grad = test::to_tensor(arrays.at(name + "/grad_out"));
        EXPECT_TRUE(expect_close(torch::autograd::grad({pooled}, {input}, {grad})[0],
                                 test::to_tensor(arrays.at(name + "/grad_in")),
                                 {.rtol = 1e-5, .atol = 1e-5}))
            << name;
      }
    }
  }
}

TEST(RoiAlignParity, EqualsDetectron2PoolerOnItsOwnLevels) {
  const auto cases = test::parity_cases([](const nlohmann::json& d) {
    return d.value("case", "") == "unit_roi_align" && d.at("files").contains("pooler.npz");
  });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    const test::Npz arrays = test::read_npz(parity.folder / "pooler.npz");
    const Tensor boxes = test::to_tensor(arrays.at("boxes")),
                 levels = test::to_tensor(arrays.at("levels"));
    const Tensor rois = torch::cat({torch::zeros({boxes.size(0), 1}), boxes}, 1);
    const Tensor expected = test::to_tensor(arrays.at("out"));
    for (std::int64_t level = 0; level < 4; ++level) {
      const Tensor here = levels.eq(level).nonzero().flatten();
      const Tensor features = test::to_tensor(arrays.at("feat" + std::to_string(level)));
      const RoiAlignOptions options{.spatial_scale = 1.0 / static_cast<double>(4 << level)};
      EXPECT_TRUE(expect_close(roi_align(features, rois.index_select(0, here), options),
                               expected.index_select(0, here), {.rtol = 1e-5, .atol = 1e-5}))
          << "level " << level;
    }
  }
}

}  // namespace
}  // namespace detforge
