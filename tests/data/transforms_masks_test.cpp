// Masks in the transforms: they follow image and box as one record.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "data/sample_masks.h"
#include "detforge/core/error.h"
#include "detforge/data/collate.h"
#include "detforge/data/large_scale_jitter.h"
#include "detforge/data/sample_geometry.h"
#include "detforge/data/transform_pipeline.h"

namespace detforge {
namespace {

using Flip = TransformPipeline::Flip;

Rng test_rng(std::uint64_t stream) {
  return {31, RngPurpose::kAugment, stream};
}

// A ring: the polygon cannot have a hole, the RLE has.
Rle ring(ImageSize size) {
  const Rle outer = polygon_mask(test::rectangle({2, 1, 8, 7}), size);
  Rle hole = polygon_mask(test::rectangle({4, 3, 6, 5}), size);
  hole.counts.insert(hole.counts.begin(), 0);  // the complement
  return merge_masks(std::vector<RleView>{outer, hole}, true);
}

TEST(TransformMasks, HolesAndSecondPartsSurvive) {
  Sample sample = test::noisy_sample({10, 12}, 1);
  test::add_object(sample, {2, 1, 8, 7}, {{}, ring({10, 12})});
  test::add_object(sample, {0, 0, 12, 10},
                   {{test::rectangle({0, 0, 2, 2}), test::rectangle({9, 8, 12, 10})}, {}});
  flip_sample_horizontal_(sample);
  resize_sample_(sample, {20, 24});
  EXPECT_EQ(rle_area(test::mask_of(sample, 0).counts), 4 * (36 - 4));
  EXPECT_EQ(test::mask_box_of(sample, 0), (Box{8, 2, 20, 14}));
  EXPECT_EQ(sample.instances[0].box, (Box{8, 2, 20, 14}));
  EXPECT_EQ(rle_area(test::mask_of(sample, 1).counts), 4 * (4 + 6));
  cut_sample_(sample, {.left = 4, .top = 4, .size = {14, 20}});  // cuts both parts
  EXPECT_EQ(rle_area(test::mask_of(sample, 0).counts), 4 * (36 - 4) - 2 * 12);
  EXPECT_EQ(rle_area(test::mask_of(sample, 1).counts), 2 * 2);
  EXPECT_EQ(sample.instances[1].segmentation.polygons.size(), 1U);
}

// The same object as polygon and as RLE, by whole factors and along pixel edges: equal pixels.
TEST(TransformMasksProperty, PolygonsAndRunsStayEqual) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    Rng rng = test_rng(i);
    Sample sample = test::noisy_sample({24, 32}, i);
    const auto edge = [&](std::uint64_t n) { return static_cast<double>(rng.below(n)); };
    for (int k = 0; k < 4; ++k) {
      const double x = edge(24), y = edge(16);
      const Box box{x, y, x + 1 + edge(8), y + 1 + edge(8)};
      test::add_polygon(sample, box);
      test::add_rle(sample, box);
    }
    const TransformPipeline pipeline({.min_sizes = {0},
                                      .flip = i % 3 == 0 ? Flip::kVertical : Flip::kHorizontal,
                                      .crop = i % 2 == 0,
                                      .masks = true,
                                      .recompute_boxes = true});
    pipeline.apply(sample, rng);
    resize_sample_(sample, {2 * sample.image.height, 3 * sample.image.width});
    std::size_t compared = 0;
    for (std::size_t k = 0; k + 1 < sample.instances.size(); k += 2) {
      ASSERT_EQ(sample.instances[k].label / 2, sample.instances[k + 1].label / 2);
      ASSERT_EQ(test::mask_of(sample, k), test::mask_of(sample, k + 1));
      ASSERT_EQ(sample.instances[k].box, sample.instances[k + 1].box);
      ASSERT_EQ(sample.instances[k].box, test::mask_box_of(sample, k));
      ++compared;
    }
    EXPECT_GT(compared, 0U);
  }
}

// Detectron2: recompute_boxes = MASK_ON and CROP.ENABLED. The example of its dataset mapper.
TEST(TransformMasks, BoxesAfterACropAreThoseOfTheMasks) {
  Sample sample = test::noisy_sample({2, 2}, 1);
  test::add_object(sample, {0, 0, 2, 2}, {{{0, 0, 2, 0, 0, 2}}, {}});
  Sample old = sample;
  cut_sample_(sample, {.left = 1, .top = 0, .size = {2, 1}});
  old = sample;
  filter_instances(old, {.masks = true});
  EXPECT_EQ(old.instances[0].box, (Box{0, 0, 1, 2}));  // the old box, cut
  filter_instances(sample, {.masks = true, .recompute_boxes = true});
  EXPECT_EQ(sample.instances[0].box, (Box{0, 0, 1, 1}));
}

TEST(TransformMasks, ObjectsWhoseMaskIsLostAreRemovedThoseWithoutOneStay) {
  Sample sample = test::noisy_sample({10, 10}, 1);
  test::add_object(sample, {0, 0, 9, 9}, {{test::rectangle({0, 0, 2, 2})}, {}});
  test::add_object(sample, {0, 0, 9, 9},
                   {{}, polygon_mask(test::rectangle({0, 0, 2, 2}), {10, 10})});
  test::add_object(sample, {0, 0, 9, 9});
  test::add_polygon(sample, {6, 6, 9, 9});
  cut_sample_(sample, {.left = 5, .top = 5, .size = {5, 5}});
  Sample boxes_only = sample;
  EXPECT_EQ(filter_instances(boxes_only).dropped, 0);
  const FilterCounts counts = filter_instances(sample, {.masks = true});
  EXPECT_EQ(counts.dropped, 2);
  EXPECT_EQ(counts.masks_empty, 2);
  ASSERT_EQ(sample.instances.size(), 2U);
  EXPECT_EQ(sample.instances[0].annotation_id, 102);
  EXPECT_TRUE(sample.instances[0].segmentation.empty());
  EXPECT_EQ(test::mask_box_of(sample, 1), (Box{1, 1, 4, 4}));
}

TEST(TransformMasks, BitmasksAreDrawnAfterTheTransforms) {
  Sample sample = test::noisy_sample({10, 10}, 1);
  test::add_object(sample, {1, 1, 4, 4}, {{{1, 1, 4, 1, 4, 4}}, {}});
  test::add_object(sample, {1, 1, 4, 4});
  Rng rng = test_rng(0);
  TransformPipeline({.min_sizes = {30}, .flip = Flip::kNone, .masks = true, .bitmasks = true})
      .apply(sample, rng);
  EXPECT_TRUE(sample.instances[0].segmentation.polygons.empty());
  EXPECT_EQ(sample.instances[0].segmentation.rle,
            polygon_mask(std::vector<double>{3, 3, 12, 3, 12, 12}, {30, 30}));
  EXPECT_TRUE(sample.instances[1].segmentation.empty());
}

TEST(TransformMasks, OptionsThatNeedMasksSaySo) {
  EXPECT_THROW(TransformPipeline({.recompute_boxes = true}), Error);
  EXPECT_THROW(TransformPipeline({.bitmasks = true}), Error);
  EXPECT_THROW(TransformPipeline({.copy_paste = CopyPasteOptions{}}), Error);
}

TEST(TransformMasks, TargetsCarryThemInOrderWithoutCrowds) {
  Sample sample = test::noisy_sample({10, 10}, 1);
  test::add_polygon(sample, {1, 1, 4, 4});
  test::add_rle(sample, {2, 2, 5, 5}).is_crowd = true;
  test::add_object(sample, {3, 3, 6, 6});
  test::add_rle(sample, {4, 4, 7, 7});
  EXPECT_TRUE(collate({sample}, {}).targets[0].masks.empty());
  const Targets targets = collate({sample}, {.masks = true}).targets[0];
  ASSERT_EQ(targets.masks.size(), 3U);
  EXPECT_EQ(targets.masks[0].polygons, sample.instances[0].segmentation.polygons);
  EXPECT_TRUE(targets.masks[1].empty());
  EXPECT_EQ(targets.masks[2].rle, sample.instances[3].segmentation.rle);
}

// --- large-scale jitter

TEST(LargeScaleJitter, FitsTheImageIntoTheScaledTarget) {
  Sample sample = test::noisy_sample({40, 80}, 1);
  test::add_rle(sample, {10, 20, 30, 40});
  Rng rng = test_rng(1);
  ResizeScale({.min_scale = 0.5, .max_scale = 0.5, .target = {100, 100}}).apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{25, 50}));  // 50 / 80 of both sides
  EXPECT_EQ(sample.instances[0].box, (Box{6.25, 12.5, 18.75, 25}));
  EXPECT_EQ(sample.instances[0].segmentation.rle.size, (ImageSize{25, 50}));
}

TEST(LargeScaleJitter, PadsSmallImagesAtTheRightAndTheBottom) {
  Sample sample = test::noisy_sample({4, 30}, 1);
  test::add_rle(sample, {0, 0, 30, 4});
  const Image before = sample.image;
  Rng rng = test_rng(2);
  FixedSizeCrop({.size = {10, 20}, .padding = 99}).apply(sample, rng);
  ASSERT_EQ(sample.image.size(), (ImageSize{10, 20}));
  EXPECT_EQ(test::mask_box_of(sample, 0), (Box{0, 0, 20, 4}));
  const auto left = static_cast<std::int64_t>(-sample.instances[0].box.x1);
  EXPECT_TRUE(std::equal(sample.image.row(3), sample.image.row(3) + 60, before.row(3) + 3 * left));
  EXPECT_EQ(std::count(sample.image.row(4), sample.image.row(9) + 60, 99), 6 * 60);
}

TEST(LargeScaleJitter, ImpossibleOptionsAreErrors) {
  EXPECT_THROW(ResizeScale({.min_scale = 0}), Error);
  EXPECT_THROW(ResizeScale({.min_scale = 3, .max_scale = 2}), Error);
  EXPECT_THROW(ResizeScale({.max_scale = INFINITY}), Error);
  EXPECT_THROW(ResizeScale({.target = {0, 5}}), Error);
  EXPECT_THROW(FixedSizeCrop({.size = {5, -1}}), Error);
}

// Every record stays whole: its box is the tight box of its mask, inside an image of fixed size.
TEST(LargeScaleJitterProperty, BoxesAndMasksStayValid) {
  const TransformPipeline pipeline({.large_scale_jitter = LargeScaleJitterOptions{.size = {48, 64}},
                                    .masks = true,
                                    .recompute_boxes = true});
  std::size_t seen = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    Sample sample = test::noisy_sample({30, 50}, i);
    for (const Box& box : {Box{0, 0, 50, 30}, Box{3, 4, 9, 11}, Box{48, 28, 50, 30}}) {
      test::add_rle(sample, box);
      test::add_polygon(sample, box);
    }
    Rng rng = test_rng(i);
    pipeline.apply(sample, rng);
    ASSERT_EQ(sample.image.size(), (ImageSize{48, 64}));
    for (std::size_t k = 0; k < sample.instances.size(); ++k, ++seen) {
      const Box &box = sample.instances[k].box, pixels = test::mask_box_of(sample, k);
      ASSERT_LT(box.x1, box.x2);
      ASSERT_LT(box.y1, box.y2);
      const bool is_rle = !sample.instances[k].segmentation.rle.counts.empty();
      const double slack = is_rle || pixels == Box{} ? 0 : 0.7;  // of a drawn polygon's edge
      if (pixels != Box{} || is_rle) {
        ASSERT_NEAR(box.x1, pixels.x1, slack) << i;
        ASSERT_NEAR(box.y2, pixels.y2, slack) << i;
      }
    }
  }
  EXPECT_GT(seen, 900U);
}

}  // namespace
}  // namespace detforge
