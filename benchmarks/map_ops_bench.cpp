// What a training step does to feature maps between its convolutions, on NCHW maps (LibTorch's
// code, or ours) and on channels-last ones, at the sizes of R50-FPN on 800x1344. Run:
// build/release/bin/map_ops_bench [--benchmark_filter=MaxPool]
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/allocator.h"
#include "detforge/core/caching_allocator.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/gather_patches.h"
#include "detforge/ops/group_norm.h"
#include "detforge/ops/iou.h"
#include "detforge/ops/max_pool.h"
#include "detforge/ops/roi_align.h"
#include "detforge/ops/upsample.h"

namespace detforge {
namespace {

Tensor map(at::IntArrayRef sizes, bool channels_last) {
  return torch::randn(sizes).contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                                      : at::MemoryFormat::Contiguous);
}

/// Times forward() or its backward for `inputs`.
template <typename Forward>
void run(benchmark::State& state,
         bool backward,
         const std::vector<Tensor>& inputs,
         const Forward& forward) {
  if (!backward) {
    const at::NoGradGuard no_grad;
    for (auto _ : state) {
      benchmark::DoNotOptimize(forward());
    }
    return;
  }
  for (const Tensor& input : inputs) {
    input.requires_grad_();
  }
  const Tensor output = forward();
  const Tensor grad = torch::randn_like(output);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        torch::autograd::grad({output}, inputs, {grad}, /*retain_graph=*/true));
  }
}

#define DETFORGE_MAP_BENCHMARK(NAME)        \
  BENCHMARK(NAME)                           \
      ->ArgNames({"channels_last", "back"}) \
      ->ArgsProduct({{0, 1}, {0, 1}})       \
      ->Unit(benchmark::kMillisecond)       \
      ->UseRealTime()

void BM_MaxPoolRelu(benchmark::State& state) {
  const Tensor stem = map({1, 64, 400, 672}, state.range(0) != 0);
  run(state, state.range(1) != 0, {stem},
      [&] { return max_pool(stem, {.kernel = 3, .stride = 2, .padding = 1, .relu = true}); });
}
DETFORGE_MAP_BENCHMARK(BM_MaxPoolRelu);

void BM_UpsampleAdd(benchmark::State& state) {
  const Tensor fine = map({1, 256, 200, 336}, state.range(0) != 0);
  const Tensor coarse = map({1, 256, 100, 168}, state.range(0) != 0);
  if (state.range(1) == 0) {
    run(state, false, {}, [&] { return upsample_add_(fine, coarse); });
  } else {
    run(state, true, {coarse}, [&] { return upsample_twice(coarse); });
  }
}
DETFORGE_MAP_BENCHMARK(BM_UpsampleAdd);

/// res2 of ResNet-18 with GN at 480x704, batch 4.
void BM_GroupNormRelu(benchmark::State& state) {
  const Tensor x = map({4, 64, 120, 176}, state.range(0) != 0);
  const Tensor weight = torch::ones({64}), bias = torch::zeros({64});
  run(state, state.range(1) != 0, {x, weight, bias},
      [&] { return group_norm(x, weight, bias, {.activation = Activation::kRelu}); });
}
DETFORGE_MAP_BENCHMARK(BM_GroupNormRelu);

/// YOLOv3's neck at 416x416, batch 4.
void BM_UpsampleConcat(benchmark::State& state) {
  const Tensor fine = map({4, 256, 52, 52}, state.range(0) != 0);
  const Tensor coarse = map({4, 128, 26, 26}, state.range(0) != 0);
  run(state, state.range(1) != 0, {coarse, fine}, [&] { return upsample_concat(coarse, fine); });
}
DETFORGE_MAP_BENCHMARK(BM_UpsampleConcat);

void BM_GatherPatches(benchmark::State& state) {
  const Tensor p2 = map({1, 256, 200, 336}, state.range(0) != 0);
  const Tensor cells = torch::randint(0, 200 * 336, {200}, torch::kLong);
  run(state, state.range(1) != 0, {p2}, [&] { return gather_patches(p2, cells); });
}
DETFORGE_MAP_BENCHMARK(BM_GatherPatches);

/// ROIs of sizes that put them on every level, in rows for the box head (7) or as maps for the mask
/// head (14).
void roi_align_of_heads(benchmark::State& state, std::int64_t count, std::int64_t side) {
  const bool channels_last = state.range(0) != 0;
  std::vector<RoiAlignLevel> pyramid;
  std::vector<Tensor> maps;
  for (std::int64_t level = 0; level < 4; ++level) {
    maps.push_back(map({1, 256, (200 + (1 << level) - 1) >> level, 336 >> level}, channels_last));
    pyramid.push_back({maps.back(), 0.25 / static_cast<double>(1 << level)});
  }
  const Tensor levels = torch::arange(count).remainder(4);
  const Tensor box = 80 * torch::pow(2.0, levels.to(torch::kFloat)).unsqueeze(1);
  const Tensor corner = torch::rand({count, 2}) * torch::tensor({1344.0F, 800.0F}) - box / 2;
  const Tensor rois = torch::cat({torch::zeros({count, 1}), corner, corner + box}, 1);
  run(state, state.range(1) != 0, maps, [&] {
    return roi_align_pyramid(pyramid, rois, levels,
                             {.output_size = {side, side}, .contiguous = side == 7});
  });
}
void BM_RoiAlignBoxHead(benchmark::State& state) {
  roi_align_of_heads(state, 512, 7);
}
DETFORGE_MAP_BENCHMARK(BM_RoiAlignBoxHead);
void BM_RoiAlignMaskHead(benchmark::State& state) {
  roi_align_of_heads(state, 128, 14);
}
DETFORGE_MAP_BENCHMARK(BM_RoiAlignMaskHead);

void BM_MaskLogits(benchmark::State& state) {
  const Tensor features = map({128, 256, 28, 28}, state.range(0) != 0);
  const Tensor weight = torch::randn({80, 256, 1, 1}), bias = torch::randn({80});
  const Tensor labels = torch::randint(0, 80, {128}, torch::kLong);
  run(state, state.range(1) != 0, {features, weight, bias},
      [&] { return conv1x1_at_channel(features, weight, bias, labels); });
}
DETFORGE_MAP_BENCHMARK(BM_MaskLogits);

void BM_BestIou(benchmark::State& state) {
  const auto boxes = [](std::int64_t count) {
    const Tensor corner = torch::rand({count, 2}) * 800;
    return torch::cat({corner, corner + 16 + torch::rand({count, 2}) * 200}, 1);
  };
  const Tensor gt = boxes(state.range(0)), anchors = boxes(268569);
  for (auto _ : state) {
    benchmark::DoNotOptimize(best_iou(gt, anchors));
  }
}
BENCHMARK(BM_BestIou)->Arg(8)->Arg(100)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace detforge

int main(int argc, char** argv) {
  detforge::configure_malloc(detforge::TensorSource::kCachingHeap);
  detforge::install_caching_allocator();
  at::set_num_threads(2);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
