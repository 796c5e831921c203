#include "detforge/data/copy_paste.h"

#include <map>

#include <gtest/gtest.h>

#include "data/picture_files.h"
#include "data/sample_masks.h"
#include "detforge/core/error.h"
#include "detforge/data/loader.h"
#include "detforge/data/partner.h"

namespace detforge {
namespace {

constexpr CopyPasteOptions kAll{.object_probability = 1};

Rng test_rng(std::uint64_t stream) {
  return {37, RngPurpose::kAugment, stream};
}

// 6 x 8: the pasted square covers columns 2..5, rows 1..4.
TEST(CopyPaste, HidesWhatIsUnderneath) {
  Sample sample = test::noisy_sample({6, 8}, 1), other = test::noisy_sample({6, 8}, 2);
  test::add_polygon(sample, {0, 1, 4, 3});  // loses columns 2, 3
  test::add_rle(sample, {3, 2, 5, 4});      // hidden wholly
  test::add_polygon(sample, {0, 5, 8, 6});  // untouched
  test::add_object(sample, {2, 1, 5, 5});   // without a mask
  test::add_polygon(other, {2, 1, 6, 5}).annotation_id = 900;
  const Sample before = sample;
  Rng rng = test_rng(1);
  const CopyPasteCounts counts = paste_objects_(sample, other, kAll, rng);
  EXPECT_EQ(counts.pasted, 1);
  EXPECT_EQ(counts.covered, 1);
  EXPECT_EQ(counts.hidden, 1);
  ASSERT_EQ(sample.instances.size(), 4U);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 1, 2, 3}));
  EXPECT_EQ(test::mask_of(sample, 0), polygon_mask(test::rectangle({0, 1, 2, 3}), {6, 8}));
  EXPECT_EQ(sample.instances[1].annotation_id, 102);
  EXPECT_EQ(sample.instances[1].segmentation.polygons.size(), 1U);  // still a polygon
  EXPECT_EQ(sample.instances[2].box, (Box{2, 1, 5, 5}));
  EXPECT_EQ(sample.instances[3].annotation_id, 900);
  EXPECT_EQ(sample.instances[3].box, (Box{2, 1, 6, 5}));
  for (std::int64_t y = 0; y < 6; ++y) {
    for (std::int64_t x = 0; x < 8; ++x) {
      const bool pasted = x >= 2 && x < 6 && y >= 1 && y < 5;
      const Image& source = pasted ? other.image : before.image;
      EXPECT_TRUE(
          std::equal(source.row(y) + 3 * x, source.row(y) + 3 * x + 3, sample.image.row(y) + 3 * x))
          << x << " " << y;
    }
  }
}

TEST(CopyPaste, ObjectsOfALargerImageAreCut) {
  Sample sample = test::noisy_sample({6, 8}, 1), other = test::noisy_sample({20, 30}, 2);
  test::add_polygon(other, {6, 4, 12, 9});
  test::add_rle(other, {5, 0, 9, 2});
  test::add_rle(other, {20, 0, 25, 5});  // outside
  // An L of two parts: the cut below row 6 leaves its upright, one column wide.
  test::add_object(other, {0, 2, 8, 9},
                   {{test::rectangle({0, 2, 1, 8}), test::rectangle({0, 8, 8, 9})}, {}});
  test::add_polygon(other, {3, 3, 5, 5}).box = {2, 2, 6, 6};  // not cut: the annotator's box
  Rng rng = test_rng(1);
  EXPECT_EQ(paste_objects_(sample, other, kAll, rng).pasted, 4);
  ASSERT_EQ(sample.instances.size(), 4U);
  const std::vector<Box> tight = {{6, 4, 8, 6}, {5, 0, 8, 2}, {0, 2, 1, 6}, {3, 3, 5, 5}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(test::mask_box_of(sample, i), tight[i]) << i;
    EXPECT_EQ(sample.instances[i].box, i < 3 ? tight[i] : (Box{2, 2, 6, 6})) << i;
  }
}

// An object of 10 rows, of which the pasted one leaves the first column.
TEST(CopyPaste, RemovesWhatIsAlmostWhollyHidden) {
  struct Case {
    double width;  // of the object: 1 / width is left
    double min_visible_frac;
    std::int64_t hidden;
  };
  for (const Case& c : {Case{10, 0.1, 0}, Case{11, 0.1, 1}, Case{11, 0.05, 0}, Case{20, 0, 0}}) {
    Sample sample = test::noisy_sample({10, 20}, 1), other = test::noisy_sample({10, 20}, 2);
    test::add_polygon(sample, {0, 0, c.width, 10});
    test::add_polygon(other, {1, 0, 20, 10}).annotation_id = 900;
    Rng rng = test_rng(1);
    const CopyPasteCounts counts = paste_objects_(
        sample, other, {.object_probability = 1, .min_visible_frac = c.min_visible_frac}, rng);
    EXPECT_EQ(counts.hidden, c.hidden) << c.width;
    EXPECT_EQ(counts.covered, 1 - c.hidden) << c.width;
    ASSERT_EQ(sample.instances.size(), c.hidden == 0 ? 2U : 1U) << c.width;
    EXPECT_EQ(sample.instances.back().annotation_id, 900);
    EXPECT_EQ(sample.instances[0].box, c.hidden == 0 ? (Box{0, 0, 1, 10}) : (Box{1, 0, 20, 10}));
  }
  EXPECT_EQ(CopyPasteOptions{}.min_visible_frac, 0.1);
}

TEST(CopyPaste, CrowdsAndObjectsWithoutMaskAreNotTaken) {
  Sample sample = test::noisy_sample({6, 8}, 1), other = test::noisy_sample({6, 8}, 2);
  test::add_rle(other, {1, 1, 3, 3}).is_crowd = true;
  test::add_object(other, {1, 1, 3, 3});
  const Image before = sample.image;
  Rng rng = test_rng(1);
  EXPECT_EQ(paste_objects_(sample, other, kAll, rng).pasted, 0);
  EXPECT_EQ(sample.image.bgr, before.bgr);
  EXPECT_TRUE(sample.instances.empty());
}

TEST(CopyPaste, TakesARandomSubset) {
  std::int64_t pasted = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    Sample sample = test::noisy_sample({6, 8}, 1), other = test::noisy_sample({6, 8}, 2);
    for (double x = 0; x < 8; ++x) {
      test::add_polygon(other, {x, 0, x + 1, 6});
    }
    Rng rng = test_rng(i);
    pasted += paste_objects_(sample, other, {.object_probability = 0.25}, rng).pasted;
  }
  EXPECT_NEAR(static_cast<double>(pasted), 1000, 110);  // 4 standard deviations of the binomial
}

TEST(CopyPaste, NeedsASecondImage) {
  Sample sample = test::noisy_sample({6, 8}, 1);
  Rng rng = test_rng(1);
  const TransformPipeline pipeline({.copy_paste = CopyPasteOptions{}, .masks = true});
  EXPECT_THROW(pipeline.apply(sample, rng), Error);
}

// FIELD_REPORTS F106: an error names the image that it is about.
TEST(FieldReportF106, AnErrorOfTheSecondImageNamesItAndNotTheFirst) {
  const TransformPipeline pipeline({.copy_paste = CopyPasteOptions{}, .masks = true});
  const auto make = [](std::int64_t id, const std::string& path, bool damaged) {
    Sample sample = test::noisy_sample({6, 8}, 1);
    sample.image_id = id;
    sample.path = path;
    test::add_rle(sample, {1, 1, 3, 3});
    if (damaged) {
      sample.instances[0].segmentation.rle.counts = {7};  // of 48 pixels
    }
    return sample;
  };
  for (const bool second : {false, true}) {
    Sample sample = make(31, "first.png", !second);
    Rng rng = test_rng(1);
    const std::string error = test::error_of([&] {
      pipeline.apply(sample, rng, [&](Rng& /*rng*/) { return make(32, "second.png", second); });
    });
    const std::string named = second ? "image 32, second.png" : "image 31, first.png";
    EXPECT_NE(error.find(named), std::string::npos) << error;
    EXPECT_EQ(error.find(second ? "first.png" : "second.png"), std::string::npos) << error;
  }
}

TEST(FieldReportF106, ASecondImageThatCannotBeReadIsNamed) {
  test::DatasetFolder data;
  data.add_pictures(2);
  files::write_atomic(data.folder / "p1.png", "broken");
  const CocoDataset dataset = data.open();
  const TransformPipeline transforms({.copy_paste = CopyPasteOptions{}, .masks = true});
  TrainLoader loader(dataset, transforms,
                     {.batch_size = 1, .threads = 0, .aspect_ratio_grouping = false});
  int good = 0, bad = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string error = test::error_of([&] { loader.next(); });
    ++(error.empty() ? good : bad);
    EXPECT_EQ(error.find("p0.png"), std::string::npos) << error;
    EXPECT_TRUE(error.empty() || error.find("image 11") != std::string::npos) << error;
  }
  EXPECT_GT(bad, 20);  // half of the images, and half of the partners of the others
  EXPECT_GT(good, 0);
}

TEST(CopyPaste, EveryImageMayBeTheSecondOne) {
  test::DatasetFolder data;
  data.add_pictures(4);
  const CocoDataset dataset = data.open();
  const TransformPipeline::Partner partner = random_partner(dataset);
  std::map<std::int64_t, int> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Rng rng = test_rng(i), same = test_rng(i);
    const std::int64_t id = partner(rng).image_id;
    EXPECT_EQ(id, partner(same).image_id);
    ++seen[id];
  }
  ASSERT_EQ(seen.size(), 4U);
  for (const auto& [id, count] : seen) {
    EXPECT_NEAR(count, 50, 25) << id;  // 4 standard deviations of the binomial
  }
}

// FIELD_REPORTS F25: slivers of objects after several transforms; every record is valid.
TEST(FieldReportF25, CopyPasteWithJitterLeavesOnlyValidRecords) {
  const TransformPipeline pipeline({.crop = true,
                                    .large_scale_jitter = LargeScaleJitterOptions{.size = {40, 40}},
                                    .copy_paste = CopyPasteOptions{},
                                    .masks = true,
                                    .recompute_boxes = true});
  std::size_t seen = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto make = [&](std::uint64_t seed) {
      Sample sample = test::noisy_sample({30, 50}, seed);
      for (double x = 0; x < 50; x += 7) {
        test::add_polygon(sample, {x, 1, std::min(50.0, x + 9), 29});
        test::add_rle(sample, {x, 28, x + 1, 30});
      }
      return sample;
    };
    Sample sample = make(i);
    Rng rng = test_rng(i);
    pipeline.apply(sample, rng, [&](Rng& numbers) { return make(numbers.below(1000)); });
    for (std::size_t k = 0; k < sample.instances.size(); ++k, ++seen) {
      const Instance& instance = sample.instances[k];
      ASSERT_GT(instance.box.width(), 1e-5);
      ASSERT_GT(instance.box.height(), 1e-5);
      ASSERT_GE(instance.box.x1, 0);
      ASSERT_LE(instance.box.x2, 40);
      ASSERT_FALSE(instance.segmentation.empty());
      const Rle mask = test::mask_of(sample, k);
      if (!instance.segmentation.rle.counts.empty()) {
        ASSERT_GT(rle_area(mask.counts), 0);
        ASSERT_EQ(instance.box, rle_box(mask.counts, 40));
      }
      for (const std::vector<double>& part : instance.segmentation.polygons) {
        ASSERT_GE(part.size(), 6U);
        ASSERT_GT(polygon_area(part), 0);
      }
    }
  }
  EXPECT_GT(seen, 1000U);
}

// The second image is drawn with the sample's numbers: batches are equal for any number of threads.
TEST(CopyPaste, BatchesAreBitEqualForAnyNumberOfThreads) {
  test::DatasetFolder data;
  data.add_pictures(9);
  for (auto& annotation : data.json["annotations"]) {
    const auto box = annotation["bbox"].get<std::vector<double>>();
    annotation["segmentation"] = {
        test::rectangle({box[0], box[1], box[0] + box[2], box[1] + box[3]})};
  }
  CocoDatasetOptions options = data.options();
  options.keep_segmentation = true;
  const CocoDataset dataset(options);
  const TransformPipeline transforms(
      {.large_scale_jitter = LargeScaleJitterOptions{.size = {40, 40}},
       .copy_paste = CopyPasteOptions{.object_probability = 0.8},
       .masks = true,
       .recompute_boxes = true});
  std::vector<std::string> expected;
  std::size_t objects = 0;
  for (const int threads : {0, 1, 3}) {
    TrainLoader loader(
        dataset, transforms,
        {.batch_size = 3, .threads = threads, .seed = 4, .collate = {.masks = true}});
    std::vector<std::string> batches;
    for (int i = 0; i < 12; ++i) {
      const Batch batch = loader.next();
      std::string& bytes = batches.emplace_back(
          static_cast<const char*>(batch.images.images.data_ptr()), batch.images.images.nbytes());
      for (const Targets& targets : batch.targets) {
        ASSERT_EQ(static_cast<std::int64_t>(targets.masks.size()), targets.boxes.size(0));
        bytes.append(static_cast<const char*>(targets.boxes.data_ptr()), targets.boxes.nbytes());
        for (const Segmentation& mask : targets.masks) {
          bytes += encode_rle_counts(segmentation_mask(mask, {40, 40}).counts);
          ++objects;
        }
      }
    }
    expected = expected.empty() ? batches : expected;
    EXPECT_TRUE(batches == expected) << threads << " threads";
  }
  EXPECT_GT(objects, 3U * 12U * 3U);  // more than the one object of each image
}

}  // namespace
}  // namespace detforge
