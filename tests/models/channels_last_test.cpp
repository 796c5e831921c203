// Whole detectors on channels-last images: every op between convolutions keeps that layout and
// gives what it gives on NCHW maps.
#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/models/rcnn/faster_rcnn.h"
#include "detforge/models/yolo/yolov3.h"
#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/kernel_backend.h"
#include "support/torch/random_boxes.h"
#include "support/torch/small_resnet.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

ImageBatch random_images() {
  ImageBatch batch;
  batch.images = test::random_tensor({2, 3, 64, 96}, 17) * 20;
  batch.sizes = {{64, 96}, {64, 96}};
  batch.original_sizes = batch.sizes;
  batch.image_ids = {0, 1};
  batch.paths = {"a", "b"};
  batch.rng_keys = {0, 1};
  return batch;
}

std::vector<Targets> two_objects() {
  const Segmentation roof{.polygons = {{8, 30, 20, 10, 32, 30, 32, 50, 8, 50}}, .rle = {}};
  return {{.boxes = torch::tensor({{8.0F, 10.0F, 32.0F, 50.0F}}),
           .labels = torch::tensor({0}),
           .masks = {roof}},
          {.boxes = torch::tensor({{40.0F, 8.0F, 90.0F, 60.0F}}),
           .labels = torch::tensor({1}),
           .masks = {roof}}};
}

FasterRcnnOptions small_rcnn(NormType norm) {
  FasterRcnnOptions options;
  options.resnet = test::small_resnet();
  options.resnet.norm = norm;
  options.fpn = {.out_channels = 64};
  options.rpn.sampling.batch_size = 64;
  options.rpn.train = {.pre_nms_top_k = 200, .post_nms_top_k = 100};
  options.roi_heads.batch_size_per_image = 64;
  options.roi_heads.box_head.fc_dim = 32;
  options.roi_heads.output.num_classes = 2;
  options.roi_heads.mask_head = MaskHeadOptions{.num_conv = 2, .conv_dim = 32};
  return options;
}

YoloV3Options small_yolo() {
  YoloV3Options options;
  options.darknet = {.stem_channels = 8, .blocks = {1, 1, 1, 1, 1}};
  options.neck.widths = {16, 16, 8};
  options.head.widths = {32, 16, 16};
  options.layout.num_classes = 2;
  return options;
}

/// Losses and gradients of both. Convolutions sum in another order (1e-6); behind ReLUs a
/// few values change sign, and gradients with them.
template <typename Model, typename Options>
void expect_equal_training(const Options& options) {
  Model plain(options, 1), last(options, 1);
  const auto losses_of = [](Model& model, KernelBackend backend) {
    const ScopedKernelBackend scope(backend);
    return model.losses(random_images(), two_objects(), nullptr);
  };
  const LossMap expected = losses_of(plain, KernelBackend::kAten);
  const LossMap actual = losses_of(last, KernelBackend::kOwn);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(test::expect_close(actual[i].value, expected[i].value, {.rtol = 1e-4}))
        << expected[i].name;
    actual[i].value.backward({}, /*retain_graph=*/true);
    expected[i].value.backward({}, /*retain_graph=*/true);
  }
  const auto wanted = plain.named_parameters();
  for (const auto& item : last.named_parameters()) {
    EXPECT_TRUE(test::expect_close_l2(item.value().grad(), wanted[item.key()].grad(), 1e-2))
        << item.key();
  }
}

TEST(ChannelsLast, FeaturePyramidStaysInIt) {
  if (cpu::conv_kernels() == nullptr) {
    GTEST_SKIP() << "this processor has no AVX2: every convolution is LibTorch's";
  }
  Fpn fpn(ResNet(small_rcnn(NormType::kFrozenBn).resnet), FpnOptions{.out_channels = 64});
  initialize_weights(*fpn, 1);
  const auto maps_of = [&fpn](KernelBackend backend) {
    const ScopedKernelBackend scope(backend);
    return fpn->forward(random_images().images);
  };
  const auto maps = maps_of(KernelBackend::kOwn), expected = maps_of(KernelBackend::kAten);
  ASSERT_EQ(maps.size(), 5U);
  for (std::size_t level = 0; level < maps.size(); ++level) {
    EXPECT_TRUE(maps[level].is_contiguous(kLast)) << level;
    EXPECT_TRUE(expected[level].is_contiguous()) << level;
    EXPECT_TRUE(test::expect_close_l2(maps[level], expected[level], 1e-5)) << level;
  }
}

TEST(ChannelsLast, MaskRcnnTrainsAsOnNchwMaps) {
  expect_equal_training<FasterRcnn>(small_rcnn(NormType::kFrozenBn));
}

TEST(ChannelsLast, MaskRcnnWithGroupNormTrainsAsOnNchwMaps) {
  expect_equal_training<FasterRcnn>(small_rcnn(NormType::kGn));
}

TEST(ChannelsLast, FasterRcnnWithoutSparseRpnTrainsAsOnNchwMaps) {
  FasterRcnnOptions options = small_rcnn(NormType::kFrozenBn);
  options.roi_heads.mask_head.reset();
  options.roi_heads.box_head.num_conv = 1;
  options.rpn.sparse_fraction = 0;
  expect_equal_training<FasterRcnn>(options);
}

TEST(ChannelsLast, YoloTrainsAsOnNchwMaps) {
  YoloV3Options options = small_yolo();
  expect_equal_training<YoloV3>(options);
  options.loss.assigner = YoloAssigner::kDarknet;
  expect_equal_training<YoloV3>(options);
}

}  // namespace
}  // namespace detforge
