#include "detforge/data/loader.h"

#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "data/picture_files.h"

namespace detforge {
namespace {

using test::DatasetFolder;
using test::error_of;

/// Flip at random and one of two sizes at random, so that the random numbers show.
TransformPipeline augmentation() {
  return TransformPipeline(
      {.min_sizes = {24, 40}, .max_size = 200, .flip = TransformPipeline::Flip::kHorizontal});
}

std::string bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

/// Everything a batch holds, as bytes.
std::string bytes_of(const Batch& batch) {
  std::string out = bytes_of(batch.images.images);
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    out += bytes_of(batch.targets[i].boxes) + bytes_of(batch.targets[i].labels) +
           batch.images.paths[i];
    out += std::to_string(batch.images.image_ids[i]) + " " +
           std::to_string(batch.images.rng_keys[i]) + " " +
           std::to_string(batch.images.sizes[i].height) + " " +
           std::to_string(batch.images.original_sizes[i].width);
  }
  return out;
}

Sample sample_of(std::int64_t image_id) {
  Sample sample;
  sample.image_id = image_id;
  return sample;
}

std::vector<std::string> take(TrainLoader& loader, int batches) {
  std::vector<std::string> all;
  for (int i = 0; i < batches; ++i) {
    all.push_back(bytes_of(loader.next()));
  }
  return all;
}

TEST(Collate, NormalisesPadsAndLeavesCrowdsOut) {
  Sample a, b;
  a.image = {.height = 2, .width = 3, .bgr = std::vector<std::uint8_t>(18, 10)};
  a.image.bgr[2] = 40;  // red of the first pixel
  b.image = {.height = 5, .width = 2, .bgr = std::vector<std::uint8_t>(30, 7)};
  a.instances.resize(3);
  a.instances[0].label = 3;
  a.instances[1].is_crowd = true;
  a.instances[2].box = {1, 1, 2, 2};
  a.image_id = 5;
  a.original_size = {20, 30};
  const Batch bgr =
      collate({a, b}, {.pixel_mean = {1, 2, 3}, .pixel_std = {1, 1, 2}, .size_divisibility = 4});
  EXPECT_EQ(bgr.images.images.sizes(), (c10::IntArrayRef{2, 3, 8, 4}));
  EXPECT_EQ(bgr.images.images[0][0][0][0].item<float>(), 9);
  EXPECT_EQ(bgr.images.images[0][2][0][0].item<float>(), 18.5F);
  EXPECT_EQ(bgr.images.images[0][2][0][3].item<float>(), 0);  // padding is 0 after normalisation
  EXPECT_EQ(bgr.images.images[1][1][4][1].item<float>(), 5);
  EXPECT_EQ(bgr.images.images[1][1][5][0].item<float>(), 0);
  EXPECT_EQ(bgr.images.sizes[1], (ImageSize{5, 2}));
  EXPECT_EQ(bgr.images.original_sizes[0], (ImageSize{20, 30}));
  EXPECT_EQ(bgr.images.image_ids[0], 5);
  EXPECT_EQ(bgr.targets[0].labels.size(0), 2);
  EXPECT_EQ(bgr.targets[0].labels[1].item<std::int64_t>(), 0);
  EXPECT_EQ(bgr.targets[0].boxes[1][2].item<float>(), 2);
  EXPECT_EQ(bgr.targets[1].boxes.sizes(), (c10::IntArrayRef{0, 4}));
  const Batch rgb = collate(
      {a, b},
      {.pixel_mean = {3, 2, 1}, .pixel_std = {2, 1, 1}, .rgb = true, .size_divisibility = 4});
  EXPECT_EQ(rgb.images.images[0][0][0][0].item<float>(), 18.5F);  // red first
  EXPECT_EQ(rgb.images.images[0][2][0][0].item<float>(), 9);
}

class LoaderDeterminism : public testing::Test {
 protected:
  void SetUp() override { data_.add_pictures(13); }
  DatasetFolder data_;
  const TransformPipeline transforms_ = augmentation();
};

TEST_F(LoaderDeterminism, BatchesAreBitEqualForAnyNumberOfThreads) {
  const CocoDataset dataset = data_.open();
  std::vector<std::string> expected;
  for (const int threads : {0, 1, 2, 4}) {
    TrainLoader loader(dataset, transforms_,
                       {.batch_size = 3, .threads = threads, .prefetch = 3, .seed = 4});
    const std::vector<std::string> batches = take(loader, 20);
    if (expected.empty()) {
      expected = batches;
      EXPECT_EQ(std::set<std::string>(batches.begin(), batches.end()).size(), 20u);
    }
    EXPECT_EQ(batches == expected, true) << threads << " threads";
  }
}

TEST_F(LoaderDeterminism, RestoreInMidEpochEqualsUninterrupted) {
  const CocoDataset dataset = data_.open();
  const LoaderOptions options{.batch_size = 2, .threads = 2, .seed = 9, .repeat_threshold = 0.7};
  TrainLoader straight(dataset, transforms_, options);
  take(straight, 5);
  const std::string state = straight.state();
  const std::vector<std::string> expected = take(straight, 12);
  for (const int threads : {0, 1, 4}) {
    LoaderOptions other = options;
    other.threads = threads;
    TrainLoader resumed(dataset, transforms_, other);
    take(resumed, 1);
    resumed.restore(state);
    EXPECT_EQ(resumed.state(), state);
    EXPECT_EQ(take(resumed, 12) == expected, true) << threads << " threads";
    EXPECT_EQ(resumed.state(), straight.state());
  }
}

TEST_F(LoaderDeterminism, EveryImageOncePerEpoch) {
  const CocoDataset dataset = data_.open();
  TrainLoader loader(dataset, transforms_,
                     {.batch_size = 1, .threads = 2, .aspect_ratio_grouping = false});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (int i = 0; i < 13; ++i) {
      seen.insert(loader.next().images.image_ids[0]);
      EXPECT_EQ(loader.epoch(), epoch);
    }
    EXPECT_EQ(seen.size(), 13u);
  }
}

TEST(TrainLoader, RefusesTheStateOfAnotherDataSetOfTheSameSizeButNotOfAMovedOne) {
  DatasetFolder data, moved, other_ids, other_names;
  for (DatasetFolder* folder : {&data, &moved, &other_ids, &other_names}) {
    folder->add_pictures(4);
  }
  other_ids.json["images"][1]["id"] = 99;
  other_ids.json["annotations"][1]["image_id"] = 99;
  std::swap(other_names.json["images"][0]["file_name"], other_names.json["images"][2]["file_name"]);
  const TransformPipeline transforms = augmentation();
  const LoaderOptions options{.batch_size = 2, .threads = 0, .aspect_ratio_grouping = false};
  const auto restore = [&](DatasetFolder& folder, const std::string& state) {
    const CocoDataset dataset = folder.open();
    TrainLoader(dataset, transforms, options).restore(state);
  };
  const CocoDataset dataset = data.open();
  TrainLoader loader(dataset, transforms, options);
  loader.next();
  EXPECT_EQ(error_of([&] { restore(moved, loader.state()); }), "");
  for (DatasetFolder* folder : {&other_ids, &other_names}) {
    const std::string error = error_of([&] { restore(*folder, loader.state()); });
    EXPECT_NE(error.find("other image ids or file names"), std::string::npos) << error;
  }
}

TEST(TrainLoader, ErrorsReachNextInOrderWithPathAndId) {
  DatasetFolder data;
  data.add_pictures(8);
  files::write_atomic(data.folder / "p3.png", "broken");
  const CocoDataset dataset = data.open();
  const TransformPipeline transforms = augmentation();
  for (const int threads : {0, 2}) {
    TrainLoader loader(dataset, transforms,
                       {.batch_size = 1, .threads = threads, .aspect_ratio_grouping = false});
    int good = 0;
    std::string error;
    for (int i = 0; i < 8; ++i) {
      error += error_of([&] { good += loader.next().images.count() == 1; });
    }
    EXPECT_EQ(good, 7);
    EXPECT_NE(error.find("p3.png"), std::string::npos) << error;
    EXPECT_NE(error.find("image 13"), std::string::npos) << error;
  }
}

TEST(TrainLoader, StopsCleanlyInMidFlight) {
  DatasetFolder data;
  data.add_pictures(8);
  const CocoDataset dataset = data.open();
  const TransformPipeline transforms = augmentation();
  for (int i = 0; i < 30; ++i) {
    TrainLoader loader(dataset, transforms, {.batch_size = 2, .threads = 4, .prefetch = 1 + i % 4});
    take(loader, i % 3);
    EXPECT_GE(loader.wait_s(), 0);
  }
}

TEST(BatchPipeline, NeverHoldsMoreBatchesThanPrefetch) {
  std::atomic<int> planned = 0;
  int taken = 0;
  BatchPipeline pipeline(
      {.plan = [&]() -> std::optional<BatchPipeline::Job> {
         ++planned;
         return BatchPipeline::Job{.draws = {{.index = planned}}};
       },
       .load = [](const Draw& draw) { return std::optional(sample_of(draw.index)); },
       .collate =
           [](const std::vector<Sample>& samples) {
             Batch batch;
             batch.images.image_ids = {samples[0].image_id};
             return batch;
           }},
      4, 3);
  for (; taken < 200; ++taken) {
    ASSERT_LE(planned, taken + 3);
    ASSERT_EQ(pipeline.next()->batch.images.image_ids[0], taken + 1);
  }
}

TEST(BatchPipeline, EndsAndHandsOverErrorsOfEveryStage) {
  for (const int threads : {0, 1, 3}) {
    int planned = 0;
    BatchPipeline pipeline(
        {.plan = [&]() -> std::optional<BatchPipeline::Job> {
           ++planned;
           DETFORGE_CHECK(planned < 6, "plan failed", "");
           return BatchPipeline::Job{.draws = {{.index = planned}, {.index = -planned}}};
         },
         .load = [](const Draw& draw) -> std::optional<Sample> {
           DETFORGE_CHECK(draw.index != 2, "load failed", "");
           return draw.index == 4 || draw.index == -4 ? std::nullopt
                                                      : std::optional(sample_of(draw.index));
         },
         .collate =
             [](const std::vector<Sample>& samples) {
               DETFORGE_CHECK(samples[0].image_id != 3, "collate failed", "");
               Batch batch;
               batch.images.image_ids = {samples[0].image_id};
               return batch;
             }},
        threads, 2);
    EXPECT_EQ(pipeline.next()->batch.images.image_ids[0], 1);
    EXPECT_EQ(error_of([&] { pipeline.next(); }), "load failed");
    EXPECT_EQ(error_of([&] { pipeline.next(); }), "collate failed");
    EXPECT_EQ(pipeline.next()->batch.images.image_ids[0], 5);  // 4 was left out altogether
    EXPECT_EQ(error_of([&] { pipeline.next(); }), "plan failed");
    EXPECT_FALSE(pipeline.next().has_value());
  }
}

TEST(EvalLoader, GivesEachImageOfTheShardOnceInOrder) {
  DatasetFolder data;
  data.add_pictures(7);
  const CocoDataset dataset = data.open();
  const TransformPipeline transforms(
      {.min_sizes = {24}, .max_size = 100, .flip = TransformPipeline::Flip::kNone});
  for (const int threads : {0, 3}) {
    std::vector<std::int64_t> ids;
    for (const std::int64_t rank : {0, 1}) {
      EvalLoader loader(dataset, transforms,
                        {.batch_size = 3, .threads = threads, .rank = rank, .world_size = 2});
      EXPECT_EQ(loader.size(), rank == 0 ? 4 : 3);
      while (const std::optional<Batch> batch = loader.next()) {
        ids.insert(ids.end(), batch->images.image_ids.begin(), batch->images.image_ids.end());
      }
    }
    EXPECT_EQ(ids, (std::vector<std::int64_t>{10, 11, 12, 13, 14, 15, 16}));
  }
}

TEST(EvalLoader, LeavesOutBadImagesWithoutReplacement) {
  DatasetFolder data;
  data.add_pictures(4);
  files::write_atomic(data.folder / "p1.png", "broken");
  CocoDatasetOptions options = data.options();
  const TransformPipeline transforms(
      {.min_sizes = {24}, .max_size = 100, .flip = TransformPipeline::Flip::kNone});
  const auto ids = [&](CocoDatasetOptions::BadImage policy) {
    options.bad_image = policy;
    const CocoDataset dataset(options);
    EvalLoader loader(dataset, transforms, {.batch_size = 1, .threads = 1});
    std::vector<std::int64_t> seen;
    while (const std::optional<Batch> batch = loader.next()) {
      seen.push_back(batch->images.image_ids[0]);
    }
    return seen;
  };
  EXPECT_EQ(ids(CocoDatasetOptions::BadImage::kSkip), (std::vector<std::int64_t>{10, 12, 13}));
  EXPECT_NE(error_of([&] { ids(CocoDatasetOptions::BadImage::kStop); }).find("p1.png"),
            std::string::npos);
}

// The mask of the first object fits the size in the file, but not the picture: see MaskChecks.
TEST(EvalLoader, NeedsNoMasks) {
  DatasetFolder data;
  data.add_image(1, "a.png", test::encoded(".png", test::picture(20, 30)), 40, 60);
  data.add_image(2, "b.png", test::encoded(".png", test::picture(20, 30)), 20, 30);
  data.add_box(1, {1, 1, 5, 5});
  data.add_box(2, {2, 2, 5, 5});
  data.json["annotations"][0]["segmentation"] = {{"size", {40, 60}},
                                                 {"counts", {41, 4, 36, 4, 2315}}};
  data.json["annotations"][1]["segmentation"] = {{2, 2, 7, 2, 7, 7}};
  CocoDatasetOptions options = data.options();
  options.policy.set("image_size_mismatch", "fix");
  options.keep_segmentation = true;
  const CocoDataset dataset(options);
  const TransformPipeline transforms(
      {.min_sizes = {40}, .max_size = 100, .flip = TransformPipeline::Flip::kNone, .masks = true});
  EvalLoader loader(dataset, transforms,
                    {.batch_size = 2, .threads = 0, .collate = {.masks = true}});
  const std::optional<Batch> batch = loader.next();
  ASSERT_TRUE(batch.has_value());
  ASSERT_EQ(batch->targets.size(), 2U);
  for (const Targets& targets : batch->targets) {
    EXPECT_EQ(targets.boxes.size(0), 1);
    ASSERT_EQ(targets.masks.size(), 1U);
    EXPECT_TRUE(targets.masks[0].empty());
  }
  EXPECT_FALSE(dataset.get_or_skip(1)->instances[0].segmentation.empty());
}

}  // namespace
}  // namespace detforge
