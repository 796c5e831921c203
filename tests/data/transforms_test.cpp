#include "detforge/data/transform_pipeline.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/image_io.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using Flip = TransformPipeline::Flip;

Image random_image(ImageSize size, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest);
  Image image{size.height, size.width,
              std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3))};
  for (auto& value : image.bgr) {
    value = static_cast<std::uint8_t>(rng.below(256));
  }
  return image;
}

Sample sample_with(ImageSize size, std::vector<Box> boxes) {
  Sample sample;
  sample.image = random_image(size, 5);
  sample.original_size = size;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Box& box = boxes[i];
    Instance instance;
    instance.box = box;
    instance.label = static_cast<std::int64_t>(i);
    instance.annotation_id = 100 + static_cast<std::int64_t>(i);
    instance.segmentation.polygons = {
        {box.x1, box.y1, box.x2, box.y1, box.x2, box.y2, box.x1, box.y2}};
    sample.instances.push_back(std::move(instance));
  }
  return sample;
}

Rng any_rng() {
  return Rng(1, RngPurpose::kAugment);
}

// --- each transform

TEST(RandomFlip, MirrorsPixelsBoxesAndPolygonsTogether) {
  Sample sample = sample_with({1, 2}, {{0, 0, 0.5, 1}});
  sample.image.bgr = {1, 2, 3, 4, 5, 6};
  Rng rng = any_rng();
  RandomFlip(RandomFlip::Direction::kHorizontal, 1.0).apply(sample, rng);
  EXPECT_EQ(sample.image.bgr, (std::vector<std::uint8_t>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(sample.instances[0].box, (Box{1.5, 0, 2, 1}));
  EXPECT_EQ(sample.instances[0].segmentation.polygons[0],
            (std::vector<double>{2, 0, 1.5, 0, 1.5, 1, 2, 1}));
}

TEST(RandomFlip, VerticalMirrorsRows) {
  Sample sample = sample_with({3, 1}, {{0, 0, 1, 1}});
  sample.image.bgr = {1, 1, 1, 2, 2, 2, 3, 3, 3};
  Rng rng = any_rng();
  RandomFlip(RandomFlip::Direction::kVertical, 1.0).apply(sample, rng);
  EXPECT_EQ(sample.image.bgr, (std::vector<std::uint8_t>{3, 3, 3, 2, 2, 2, 1, 1, 1}));
  EXPECT_EQ(sample.instances[0].box, (Box{0, 2, 1, 3}));
}

TEST(RandomFlip, ProbabilityIsRespected) {
  const RandomFlip flip(RandomFlip::Direction::kHorizontal, 0.25);
  int flipped = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Sample sample = sample_with({1, 2}, {{0, 0, 1, 1}});
    Rng rng(7, RngPurpose::kAugment, 0, i);
    flip.apply(sample, rng);
    flipped += sample.instances[0].box.x1 == 1 ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 1000, 110);  // 4 standard deviations of the binomial
}

TEST(TransformsProperty, FlipTwiceIsIdentity) {
  for (const auto direction :
       {RandomFlip::Direction::kHorizontal, RandomFlip::Direction::kVertical}) {
    const Sample before = sample_with({13, 17}, {{1, 2, 3, 4}, {0, 0, 17, 13}});
    Sample after = before;
    Rng rng = any_rng();
    RandomFlip(direction, 1.0).apply(after, rng);
    EXPECT_NE(after.image.bgr, before.image.bgr);
    RandomFlip(direction, 1.0).apply(after, rng);
    EXPECT_EQ(after.image.bgr, before.image.bgr);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(after.instances[i].box, before.instances[i].box);
    }
  }
}

// FIELD_REPORTS F22: continuous coordinates without +1 or -1 anywhere.
TEST(TransformsProperty, OnePixelAndFullImageBoxesSurviveResizeAndBackExactly) {
  Sample sample = sample_with({30, 40}, {{0, 0, 1, 1}, {0, 0, 40, 30}, {39, 29, 40, 30}});
  Rng rng = any_rng();
  ResizeShortestEdge({.short_edges = {60}, .max_size = 1000}).apply(sample, rng);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 0, 2, 2}));
  EXPECT_EQ(sample.instances[1].box, (Box{0, 0, 80, 60}));
  EXPECT_EQ(sample.instances[2].box, (Box{78, 58, 80, 60}));
  RandomFlip(RandomFlip::Direction::kHorizontal, 1.0).apply(sample, rng);
  EXPECT_EQ(sample.instances[0].box, (Box{78, 0, 80, 2}));
  EXPECT_EQ(sample.instances[1].box, (Box{0, 0, 80, 60}));
  RandomFlip(RandomFlip::Direction::kHorizontal, 1.0).apply(sample, rng);
  ResizeShortestEdge({.short_edges = {30}, .max_size = 1000}).apply(sample, rng);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 0, 1, 1}));
  EXPECT_EQ(sample.instances[1].box, (Box{0, 0, 40, 30}));
  EXPECT_EQ(sample.image.size(), (ImageSize{30, 40}));
}

TEST(ResizeShortestEdge, DrawsFromChoiceOrRange) {
  std::set<std::int64_t> choice, range;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Rng rng(3, RngPurpose::kAugment, 0, i);
    Sample sample = sample_with({4, 8}, {});
    ResizeShortestEdge({.short_edges = {5, 8}, .max_size = 99}).apply(sample, rng);
    choice.insert(sample.image.height);
    sample = sample_with({4, 8}, {});
    ResizeShortestEdge(
        {.short_edges = {5, 8}, .max_size = 99, .style = ResizeShortestEdge::Style::kRange})
        .apply(sample, rng);
    range.insert(sample.image.height);
  }
  EXPECT_EQ(choice, (std::set<std::int64_t>{5, 8}));
  EXPECT_EQ(range, (std::set<std::int64_t>{5, 6, 7, 8}));
}

TEST(Transforms, ImpossibleOptionsAreErrors) {
  EXPECT_THROW(ResizeShortestEdge({.short_edges = {}}), Error);
  EXPECT_THROW(ResizeShortestEdge({.short_edges = {0, 5}}), Error);
  EXPECT_THROW(
      ResizeShortestEdge({.short_edges = {8, 5}, .style = ResizeShortestEdge::Style::kRange}),
      Error);
  EXPECT_THROW(RandomFlip(RandomFlip::Direction::kVertical, 1.5), Error);
  EXPECT_THROW(RandomCrop({.type = RandomCrop::Type::kRelative, .size = {1.1, 0.5}}), Error);
  EXPECT_THROW(RandomCrop({.type = RandomCrop::Type::kAbsoluteRange, .size = {9, 5}}), Error);
}

// --- crop

TEST(RandomCrop, AbsoluteSizesAreBoundedByTheImage) {
  Sample sample = sample_with({10, 20}, {});
  Rng rng = any_rng();
  RandomCrop({.type = RandomCrop::Type::kAbsolute, .size = {15, 7}}).apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{10, 7}));
}

TEST(RandomCrop, RelativeSizesRoundHalfUp) {
  Sample sample = sample_with({5, 10}, {});
  Rng rng = any_rng();
  RandomCrop({.type = RandomCrop::Type::kRelative, .size = {0.5, 0.5}}).apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{3, 5}));
}

TEST(RandomCropProperty, PixelsAndBoxesMoveTogether) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto type = static_cast<RandomCrop::Type>(i % 4);
    const bool absolute =
        type == RandomCrop::Type::kAbsolute || type == RandomCrop::Type::kAbsoluteRange;
    Sample sample = sample_with({12, 15}, {{6, 5, 7, 6}});
    const Image before = sample.image;
    Rng rng(11, RngPurpose::kAugment, 0, i);
    RandomCrop({.type = type,
                .size = absolute ? std::array<double, 2>{5, 9} : std::array<double, 2>{0.4, 0.6}})
        .apply(sample, rng);
    const Box box = sample.instances[0].box;
    ASSERT_GE(sample.image.height, 1);
    ASSERT_LE(sample.image.height, 12);
    if (box.x1 < 0 || box.y1 < 0 || box.x2 > static_cast<double>(sample.image.width) ||
        box.y2 > static_cast<double>(sample.image.height)) {
      continue;
    }
    const std::uint8_t* now =
        sample.image.row(static_cast<std::int64_t>(box.y1)) + 3 * static_cast<std::int64_t>(box.x1);
    EXPECT_EQ(std::vector<std::uint8_t>(now, now + 3),
              std::vector<std::uint8_t>(before.row(5) + 18, before.row(5) + 21));
  }
}

// --- filter (F01, F04, F05, F11)

TEST(FilterInstances, ClipsAndDropsWholeRecords) {
  Sample sample = sample_with({100, 100}, {{150, 20, 180, 50},
                                           {-5.5, -3, 34.5, 27},
                                           {10, 10, 10, 15},
                                           {10, 10, 10.4, 10.4},
                                           {0, 0, 100, 100},
                                           {-40, 10, -10, 40}});
  const FilterCounts counts = filter_instances(sample);
  ASSERT_EQ(sample.instances.size(), 3U);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 0, 34.5, 27}));
  EXPECT_EQ(sample.instances[1].box, (Box{10, 10, 10.4, 10.4}));
  EXPECT_EQ(sample.instances[2].box, (Box{0, 0, 100, 100}));
  EXPECT_EQ(counts.dropped, 3);
  EXPECT_EQ(counts.clipped, 3);
  // Box k still belongs to annotation k and polygon k.
  EXPECT_EQ(sample.instances[1].annotation_id, 103);
  EXPECT_EQ(sample.instances[1].segmentation.polygons[0][2], 10.4);
}

TEST(FilterInstances, BoxesThatAreNotNumbersAreDropped) {
  Sample sample = sample_with({10, 10}, {{NAN, 0, 5, 5}});
  EXPECT_EQ(filter_instances(sample).dropped, 1);
}

// --- pipeline

TEST(TransformPipelineProperty, BoxesEndInsideTheImage) {
  const TransformPipeline pipeline({.min_sizes = {20, 31}, .max_size = 50, .crop = true});
  for (std::uint64_t i = 0; i < 100; ++i) {
    Sample sample = sample_with({25, 40}, {{0, 0, 40, 25}, {-3, 5, 60, 9}, {39, 24, 40, 25}});
    Rng rng(2, RngPurpose::kAugment, 1, i);
    pipeline.apply(sample, rng);
    for (const Instance& instance : sample.instances) {
      EXPECT_GE(instance.box.x1, 0);
      EXPECT_GE(instance.box.y1, 0);
      EXPECT_LE(instance.box.x2, static_cast<double>(sample.image.width));
      EXPECT_LE(instance.box.y2, static_cast<double>(sample.image.height));
      EXPECT_LT(instance.box.x1, instance.box.x2);
    }
  }
}

// FIELD_REPORTS F23: the choices depend on (seed, epoch, sample) and repeat for nobody else.
TEST(TransformPipelineProperty, ChoicesAreAFunctionOfSeedEpochAndSample) {
  const TransformPipeline pipeline(
      {.min_sizes = {10, 90}, .sample_style = ResizeShortestEdge::Style::kRange, .crop = true});
  const auto fingerprint = [&](std::uint64_t epoch, std::uint64_t index) {
    Sample sample = sample_with({40, 60}, {{1, 1, 2, 2}});
    Rng rng(5, RngPurpose::kAugment, epoch, index);
    pipeline.apply(sample, rng);
    return files::fnv1a64(
        {reinterpret_cast<const char*>(sample.image.bgr.data()), sample.image.bgr.size()});
  };
  std::set<std::uint64_t> seen;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint64_t index = 0; index < 64; ++index) {
      const std::uint64_t first = fingerprint(epoch, index);
      EXPECT_EQ(first, fingerprint(epoch, index));
      seen.insert(first);
    }
  }
  EXPECT_EQ(seen.size(), 128U);
}

TEST(TransformPipeline, ZeroAsSizeKeepsTheSize) {
  Sample sample = sample_with({5, 6}, {});
  Rng rng = any_rng();
  TransformPipeline({.min_sizes = {0}, .flip = Flip::kNone}).apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{5, 6}));
}

}  // namespace
}  // namespace detforge
