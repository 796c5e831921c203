#include "detforge/eval/test_time_augmentation.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/rng.h"
#include "detforge/data/flip.h"
#include "detforge/data/resize.h"
#include "detforge/models/rcnn/faster_rcnn.h"
#include "support/torch/small_resnet.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

constexpr CollateOptions kGrey{.pixel_mean = {100, 110, 120}, .pixel_std = {2, 3, 4}};

/// Finds the bright things of an image: one box around all pixels above 0 after normalisation. Its
/// masks are the share of bright pixels in the cells of a 2 x 2 grid over the box.
class BrightDetector : public Detector {
 public:
  LossMap losses(const ImageBatch&, const std::vector<Targets>&, const LossCounts*) override {
    return {};
  }

  std::vector<Detections> predict(const ImageBatch& images) override {
    ++forwards;
    const Tensor bright = images.images[0][0] > 0;
    const Tensor xs = bright.any(0).nonzero(), ys = bright.any(1).nonzero();
    const Tensor box =
        torch::stack({xs.min(), ys.min(), xs.max() + 1, ys.max() + 1}).to(torch::kFloat);
    return {
        {.boxes = box.view({1, 4}), .scores = torch::tensor({0.9F}), .labels = torch::tensor({3})}};
  }

  bool has_masks() const override { return true; }

  std::vector<Tensor> predict_masks(const ImageBatch& images,
                                    const std::vector<Detections>& detections) override {
    const Tensor bright = (images.images[0][0] > 0).to(torch::kFloat);
    const Tensor box = detections[0].boxes[0].round().to(torch::kLong);
    const auto at = [&](int i) { return box[i].item<std::int64_t>(); };
    const Tensor inside = bright.slice(0, at(1), at(3)).slice(1, at(0), at(2));
    return {
        at::adaptive_avg_pool2d(inside.view({1, 1, inside.size(0), inside.size(1)}), {2, 2})[0]};
  }

  int forwards = 0;
};

/// Dark, with a bright L: a column and a foot to the right.
Image letter_l() {
  Image image{.height = 40, .width = 60, .bgr = std::vector<std::uint8_t>(40 * 60 * 3, 10)};
  for (std::int64_t y = 8; y < 24; ++y) {
    for (std::int64_t x = 12; x < 28; ++x) {
      if (x < 20 || y >= 16) {
        std::fill_n(image.row(y) + 3 * x, 3, std::uint8_t{250});
      }
    }
  }
  return image;
}

Image noise(std::int64_t height, std::int64_t width) {
  Image image{.height = height, .width = width, .bgr = {}};
  Rng rng(8, RngPurpose::kTest);
  for (std::int64_t i = 0; i < height * width * 3; ++i) {
    image.bgr.push_back(static_cast<std::uint8_t>(rng.below(256)));
  }
  return image;
}

std::shared_ptr<FasterRcnn> small_mask_rcnn() {
  FasterRcnnOptions options;
  options.resnet = test::small_resnet();
  options.fpn = {.out_channels = 32};
  options.rpn.test = {.pre_nms_top_k = 100, .post_nms_top_k = 50};
  options.roi_heads.box_head.fc_dim = 32;
  options.roi_heads.output.num_classes = 2;
  options.roi_heads.output.detections_per_image = 20;
  options.roi_heads.mask_head = MaskHeadOptions{.num_conv = 1, .conv_dim = 16};
  auto model = std::make_shared<FasterRcnn>(options, 3);
  model->eval();
  return model;
}

ImageBatch batch_of(const Image& image) {
  Sample sample;
  sample.image = image;
  sample.original_size = image.size();
  return collate({std::move(sample)}, {}).images;
}

TEST(TestTimeAugmentation, ViewsOfOneObjectBecomeOneDetectionInThePicturesPixels) {
  auto detector = std::make_shared<BrightDetector>();
  AugmentedDetector augmented(detector, {.min_sizes = {40, 80, 20}, .collate = kGrey});
  const Detections found = augmented.predict(letter_l());
  EXPECT_EQ(detector->forwards, 6);
  // All six views see the L at the same place; the filter of the resizing blurs by a pixel.
  EXPECT_TRUE(
      expect_close(found.boxes, torch::tensor({{12.0F, 8.0F, 28.0F, 24.0F}}), {.atol = 2.0}));
  EXPECT_TRUE(expect_close(found.labels, torch::tensor({3}), {}));
  // Upper right quarter empty, in every view: mirrored views are mirrored back.
  EXPECT_TRUE(
      expect_close(found.masks[0], torch::tensor({{1.0F, 0.0F}, {1.0F, 1.0F}}), {.atol = 0.35}));
  EXPECT_LT(found.masks[0][0][1].item<float>(), 0.2F);
}

TEST(TestTimeAugmentation, MirroredPictureGivesMirroredDetections) {
  auto detector = std::make_shared<BrightDetector>();
  AugmentedDetector augmented(detector, {.min_sizes = {40, 80}, .collate = kGrey});
  Image mirrored = letter_l();
  flip_horizontal_(mirrored);
  const Detections a = augmented.predict(letter_l()), b = augmented.predict(mirrored);
  const Tensor box = b.boxes[0];
  EXPECT_TRUE(expect_close(torch::stack({60 - box[2], box[1], 60 - box[0], box[3]}), a.boxes[0],
                           {.atol = 0.51}));  // which of the equal views' boxes is kept may differ
  EXPECT_TRUE(expect_close(b.masks.flip(2), a.masks, {.atol = 0.1}));
}

TEST(TestTimeAugmentation, OneViewEqualsPlainPrediction) {
  const torch::NoGradGuard no_grad;
  auto model = small_mask_rcnn();
  const Image image = noise(64, 96);
  AugmentedDetector augmented(model,
                              {.min_sizes = {64}, .flip = false, .detections_per_image = 20});
  const Detections plain = model->predict(batch_of(image)).front();
  const Detections found = augmented.predict(batch_of(image)).front();
  ASSERT_GT(plain.boxes.size(0), 5);
  EXPECT_TRUE(expect_close(found.boxes, plain.boxes, {.atol = 1e-4}));
  EXPECT_TRUE(expect_close(found.scores, plain.scores, {.atol = 1e-6}));
  EXPECT_TRUE(expect_close(found.labels, plain.labels, {}));
  EXPECT_TRUE(expect_close(found.masks, plain.masks, {.atol = 1e-5}));
}

TEST(TestTimeAugmentation, PicturesComeBackFromTheBatchExactly) {
  const torch::NoGradGuard no_grad;
  auto model = small_mask_rcnn();
  const Image image = noise(40, 57);
  const CollateOptions options{
      .pixel_mean = {123.675, 116.28, 103.53}, .pixel_std = {58.395, 57.12, 57.375}, .rgb = true};
  AugmentedDetector augmented(model, {.min_sizes = {60}, .flip = false, .collate = options});
  Sample sample;
  sample.image = image;
  sample.original_size = image.size();
  const Detections from_batch = augmented.predict(collate({sample}, options).images).front();
  EXPECT_TRUE(expect_close(from_batch.boxes, augmented.predict(image).boxes, {}));
}

/// A view of the picture made by hand.
struct NaiveView {
  Image picture;
  float scale;
  bool flipped;
};

std::vector<NaiveView> naive_views(const Image& image) {
  std::vector<NaiveView> views = {{image, 1.0F, false}, {image, 1.0F, true}};
  const Image large = resize_bilinear(image, {image.height * 3 / 2, image.width * 3 / 2});
  views.insert(views.end(), {{large, 1.5F, false}, {large, 1.5F, true}});
  for (NaiveView& view : views) {
    if (view.flipped) {
      flip_horizontal_(view.picture);
    }
  }
  return views;
}

using NaiveBox = std::array<float, 6>;  // x1, y1, x2, y2, score, label

/// The boxes of all views in pixels of the picture, by falling score.
std::vector<NaiveBox> naive_boxes(FasterRcnn& model, const std::vector<NaiveView>& views) {
  std::vector<NaiveBox> all;
  for (const auto& [picture, scale, flipped] : views) {
    const Detections seen = model.predict(batch_of(picture)).front();
    for (std::int64_t i = 0; i < seen.boxes.size(0); ++i) {
      const float* b = seen.boxes.data_ptr<float>() + 4 * i;
      const auto width = static_cast<float>(picture.width);
      const float x1 = flipped ? width - b[2] : b[0], x2 = flipped ? width - b[0] : b[2];
      all.push_back({x1 / scale, b[1] / scale, x2 / scale, b[3] / scale,
                     seen.scores[i].item<float>(), seen.labels[i].item<float>()});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a[4] > b[4]; });
  return all;
}

std::vector<NaiveBox> naive_nms(const std::vector<NaiveBox>& sorted, std::size_t most) {
  std::vector<NaiveBox> kept;
  for (const NaiveBox& a : sorted) {
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const NaiveBox& k) {
      const float w = std::min(a[2], k[2]) - std::max(a[0], k[0]);
      const float h = std::min(a[3], k[3]) - std::max(a[1], k[1]);
      const float inter = std::max(w, 0.0F) * std::max(h, 0.0F);
      const float both = (a[2] - a[0]) * (a[3] - a[1]) + (k[2] - k[0]) * (k[3] - k[1]);
      return a[5] == k[5] && inter / (both - inter) > 0.5F;
    });
    if (!covered && kept.size() < most) {
      kept.push_back(a);
    }
  }
  return kept;
}

/// The masks of these boxes in each view, averaged.
Tensor naive_masks(FasterRcnn& model,
                   const std::vector<NaiveView>& views,
                   const Detections& found) {
  Tensor sum = torch::zeros_like(found.masks);
  for (const auto& [picture, scale, flipped] : views) {
    Detections placed{.boxes = found.boxes * scale, .scores = found.scores, .labels = found.labels};
    if (flipped) {
      const Tensor x1 = placed.boxes.select(1, 0).clone(), x2 = placed.boxes.select(1, 2).clone();
      placed.boxes.select(1, 0).copy_(static_cast<float>(picture.width) - x2);
      placed.boxes.select(1, 2).copy_(static_cast<float>(picture.width) - x1);
    }
    const Tensor masks = model.predict_masks(batch_of(picture), {placed}).front();
    sum += flipped ? masks.flip(2) : masks;
  }
  return sum / static_cast<double>(views.size());
}

TEST(TestTimeAugmentation, EqualsNaiveComposition) {
  const torch::NoGradGuard no_grad;
  auto model = small_mask_rcnn();
  const Image image = noise(60, 90);
  AugmentedDetector augmented(model, {.min_sizes = {60, 90}, .detections_per_image = 15});
  const Detections found = augmented.predict(image);
  const std::vector<NaiveView> views = naive_views(image);
  const std::vector<NaiveBox> kept = naive_nms(naive_boxes(*model, views), 15);
  ASSERT_EQ(found.boxes.size(0), static_cast<std::int64_t>(kept.size()));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(expect_close(found.boxes[static_cast<std::int64_t>(i)],
                             torch::tensor({kept[i][0], kept[i][1], kept[i][2], kept[i][3]}),
                             {.atol = 1e-3}));
  }
  EXPECT_TRUE(expect_close(found.masks, naive_masks(*model, views, found), {.atol = 1e-4}));
}

TEST(TestTimeAugmentation, PredictionIsBoxesAndTheirMasks) {
  const torch::NoGradGuard no_grad;
  AugmentedDetector augmented(small_mask_rcnn(), {.min_sizes = {64, 80}});
  Sample wide, high;  // one batch, padded to one size
  wide.image = noise(64, 96);
  high.image = noise(90, 64);
  wide.original_size = wide.image.size();
  high.original_size = high.image.size();
  const ImageBatch batch = collate({wide, high}, {}).images;
  const std::vector<Detections> whole = augmented.predict(batch);
  const std::vector<Detections> boxes = augmented.predict_boxes(batch);
  const std::vector<Tensor> masks = augmented.predict_masks(batch, boxes);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_GT(whole[i].boxes.size(0), 5);
    EXPECT_TRUE(expect_close(boxes[i].boxes, whole[i].boxes, {}));
    EXPECT_TRUE(expect_close(boxes[i].scores, whole[i].scores, {}));
    EXPECT_TRUE(expect_close(boxes[i].labels, whole[i].labels, {}));
    EXPECT_FALSE(boxes[i].masks.defined());
    EXPECT_TRUE(expect_close(masks[i], whole[i].masks, {}));
  }
  EXPECT_THROW(augmented.predict_masks(batch, {boxes[0]}), Error);
}

TEST(TestTimeAugmentation, OfADetectorWithoutMasksHasNone) {
  struct BoxDetector : BrightDetector {
    bool has_masks() const override { return false; }
  };
  AugmentedDetector augmented(std::make_shared<BoxDetector>(),
                              {.min_sizes = {40}, .collate = kGrey});
  EXPECT_FALSE(augmented.has_masks());
  const Detections found = augmented.predict(letter_l());
  EXPECT_EQ(found.boxes.size(0), 1);
  EXPECT_FALSE(found.masks.defined());
  EXPECT_THROW(augmented.predict_masks(batch_of(letter_l()), {found}), Error);
}

TEST(TestTimeAugmentation, WithoutDetectionsThereAreNoneAndNoMasks) {
  const torch::NoGradGuard no_grad;
  auto model = small_mask_rcnn();
  for (auto& item : model->named_parameters()) {
    if (item.key() == "roi_heads.box_predictor.cls_score.bias") {
      item.value()[2] = 50.0F;  // all background
    }
  }
  AugmentedDetector augmented(model, {.min_sizes = {64}});
  const Detections found = augmented.predict(noise(64, 64));
  EXPECT_EQ(found.boxes.sizes(), (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(found.masks.sizes(), (std::vector<std::int64_t>{0, 28, 28}));
}

TEST(TestTimeAugmentation, RefusesViewsWithoutSizeAndTakesTheDetectorAlongIntoEvalMode) {
  auto detector = std::make_shared<BrightDetector>();
  EXPECT_THROW(AugmentedDetector(detector, {.min_sizes = {}}), Error);
  EXPECT_THROW(AugmentedDetector(detector, {.min_sizes = {0}}), Error);
  AugmentedDetector augmented(detector, {});
  augmented.eval();
  EXPECT_FALSE(detector->is_training());
}

}  // namespace
}  // namespace detforge
