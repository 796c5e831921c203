// Each op beside its naive version. Run: build/release/bin/ops_bench [--benchmark_filter=Nms]
#include <cmath>

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/ops/iou.h"
#include "detforge/ops/mask_targets.h"
#include "detforge/ops/nms.h"
#include "detforge/ops/paste_masks.h"
#include "detforge/ops/roi_align.h"
#include "detforge/structures/polygon_raster.h"
#include "support/torch/naive_ops.h"

namespace detforge {
namespace {

/// Boxes of 16..150 pixels in 800x1344; clustered: 6 around each of count / 6 centres, as proposals
/// are.
Tensor made_boxes(std::int64_t count, bool clustered) {
  torch::manual_seed(1);
  const Tensor extent = torch::tensor({1344.0F, 800.0F});
  Tensor centre = torch::rand({count, 2}) * extent;
  if (clustered) {
    centre = centre.slice(0, 0, count / 6 + 1).repeat({6, 1}).slice(0, 0, count) +
             torch::rand({count, 2}) * 12;
  }
  const Tensor half = clustered ? Tensor(torch::rand({count, 2}) * 8 + 40)
                                : Tensor(torch::rand({count, 2}) * 67 + 8);
  return torch::cat({centre - half, centre + half}, 1);
}

void BM_Nms(benchmark::State& state) {
  const Tensor boxes = made_boxes(state.range(0), state.range(1) != 0),
               scores = torch::rand({state.range(0)});
  for (auto _ : state) {
    benchmark::DoNotOptimize(batched_nms(boxes, scores, {}, 0.7, state.range(2)));
  }
}
void BM_NmsNaive(benchmark::State& state) {
  const Tensor boxes = made_boxes(state.range(0), state.range(1) != 0),
               scores = torch::rand({state.range(0)});
  for (auto _ : state) {
    benchmark::DoNotOptimize(test::naive_nms(boxes, scores, {}, 0.7));
  }
}
BENCHMARK(BM_Nms)
    ->ArgNames({"boxes", "clustered", "max_keep"})
    ->ArgsProduct({{2000, 6000, 12000}, {0, 1}, {-1, 1000}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_NmsNaive)
    ->ArgNames({"boxes", "clustered"})
    ->ArgsProduct({{2000}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

/// A P2 map of an 800x1344 image and proposals on it.
struct RoiAlignCase {
  Tensor features, rois, grad;
  RoiAlignOptions options{.spatial_scale = 0.25};

  RoiAlignCase(std::int64_t count, bool channels_last, std::int64_t channels) {
    torch::manual_seed(2);
    const auto layout =
        channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    features = torch::randn({1, channels, 200, 336}).contiguous(layout).requires_grad_();
    rois = torch::cat({torch::zeros({count, 1}), made_boxes(count, true)}, 1);
    grad = torch::randn({count, channels, 7, 7}).contiguous(layout);
  }
};

void BM_RoiAlignForward(benchmark::State& state) {
  const RoiAlignCase c(state.range(0), state.range(1) != 0, 256);
  const at::NoGradGuard no_grad;
  for (auto _ : state) {
    benchmark::DoNotOptimize(roi_align(c.features, c.rois, c.options));
  }
}
void BM_RoiAlignBackward(benchmark::State& state) {
  const RoiAlignCase c(state.range(0), state.range(1) != 0, 256);
  const Tensor pooled = roi_align(c.features, c.rois, c.options);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        torch::autograd::grad({pooled}, {c.features}, {c.grad}, /*retain_graph=*/true));
  }
}
/// 8 channels only: multiply by 32 to compare.
void BM_RoiAlignNaiveForward(benchmark::State& state) {
  const RoiAlignCase c(state.range(0), false, 8);
  for (auto _ : state) {
    benchmark::DoNotOptimize(test::naive_roi_align(c.features, c.rois, c.options));
  }
}
void BM_RoiAlignNaiveBackward(benchmark::State& state) {
  const RoiAlignCase c(state.range(0), false, 8);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        test::naive_roi_align_backward(c.grad, c.features.sizes().vec(), c.rois, c.options));
  }
}
#define DETFORGE_ROI_ALIGN_ARGS            \
  ->ArgNames({"rois", "channels_last"})    \
      ->ArgsProduct({{512, 1000}, {0, 1}}) \
      ->Unit(benchmark::kMillisecond)      \
      ->UseRealTime()
BENCHMARK(BM_RoiAlignForward) DETFORGE_ROI_ALIGN_ARGS;
BENCHMARK(BM_RoiAlignBackward) DETFORGE_ROI_ALIGN_ARGS;
BENCHMARK(BM_RoiAlignNaiveForward)->ArgName("rois")->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_RoiAlignNaiveBackward)->ArgName("rois")->Arg(512)->Unit(benchmark::kMillisecond);

/// Ground truth against the anchors of a level, and proposals against ground truth.
void BM_PairwiseIou(benchmark::State& state) {
  const Tensor a = made_boxes(state.range(0), false), b = made_boxes(state.range(1), false);
  for (auto _ : state) {
    benchmark::DoNotOptimize(pairwise_iou(a, b));
  }
}
void BM_PairwiseIouNaive(benchmark::State& state) {
  const Tensor a = made_boxes(state.range(0), false), b = made_boxes(state.range(1), false);
  for (auto _ : state) {
    benchmark::DoNotOptimize(test::naive_pairwise_iou(a, b));
  }
}
BENCHMARK(BM_PairwiseIou)
    ->ArgNames({"a", "b"})
    ->Args({20, 268569})
    ->Args({2000, 20})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(BM_PairwiseIouNaive)
    ->ArgNames({"a", "b"})
    ->Args({20, 268569})
    ->Args({2000, 20})
    ->Unit(benchmark::kMillisecond);

/// 128 ROIs of an image of 800 x 1344 with 20 objects of 60 points: what the mask head trains on.
struct MaskTargetsCase {
  std::vector<Segmentation> masks;
  Tensor boxes, gt_index;

  MaskTargetsCase(bool rle, double side) {
    torch::manual_seed(3);
    const Tensor centre = torch::rand({20, 2}) * torch::tensor({1100.0F, 600.0F}) + 100;
    for (std::int64_t i = 0; i < 20; ++i) {
      std::vector<double> xy;
      for (int point = 0; point < 60; ++point) {
        const double radius = side / 2 * (0.8 + 0.2 * std::sin(5 * 0.10472 * point));
        xy.push_back(centre[i][0].item<double>() + radius * std::cos(0.10472 * point));
        xy.push_back(centre[i][1].item<double>() + radius * std::sin(0.10472 * point));
      }
      masks.emplace_back();
      if (rle) {
        masks.back().rle = polygon_mask(xy, {800, 1344});
      } else {
        masks.back().polygons.push_back(std::move(xy));
      }
    }
    gt_index = torch::arange(128).remainder(20);
    const Tensor middle = centre.index_select(0, gt_index) + torch::rand({128, 2}) * side * 0.1;
    boxes = torch::cat({middle - side / 2, middle + side / 2}, 1).contiguous();
  }
};
void BM_MaskTargets(benchmark::State& state) {
  const MaskTargetsCase c(state.range(0) != 0, static_cast<double>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(mask_targets(c.masks, c.boxes, c.gt_index, 28));
  }
}
BENCHMARK(BM_MaskTargets)
    ->ArgNames({"rle", "side"})
    ->ArgsProduct({{0, 1}, {60, 200, 500}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

/// 100 masks of an image of 800 x 1344.
void BM_PasteMasks(benchmark::State& state) {
  const Tensor boxes = made_boxes(100, false), masks = torch::rand({100, 28, 28});
  for (auto _ : state) {
    benchmark::DoNotOptimize(paste_masks(masks, boxes, {800, 1344}));
  }
}
BENCHMARK(BM_PasteMasks)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace detforge

int main(int argc, char** argv) {
  at::set_num_threads(2);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
