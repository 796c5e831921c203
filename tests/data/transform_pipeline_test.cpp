// All augmentations together: order, alignment, determinism.
#include "detforge/data/transform_pipeline.h"

#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "data/coded_sample.h"
#include "data/picture_files.h"
#include "detforge/data/loader.h"

namespace detforge {
namespace {

using Options = TransformPipeline::Options;
using test::error_of;

struct NamedOptions {
  std::string name;
  Options options;
  bool colours_stay = true;  ///< whether pixels still tell the label
};

/// Every augmentation alone, and the sets that recipes use. Masks are on.
std::vector<NamedOptions> every_augmentation() {
  const Letterbox::Options box{.size = {96, 128}};
  const Expand::Options expand{};
  const MinIouRandomCrop::Options crop{};
  std::vector<NamedOptions> all = {
      {"photometric", {.photometric_distortion = PhotometricDistortion::Options{}}, false},
      {"expand", {.expand = expand}},
      {"min-IoU crop", {.min_iou_crop = crop}},
      {"resize range", {.resize_range = ResizeRange::Options{.low = {64, 64}, .high = {120, 160}}}},
      {"fixed size", {.fixed_size = ImageSize{90, 110}}},
      {"letterbox", {.letterbox = box}},
      {"letterbox after crops", {.crop = true, .min_iou_crop = crop, .letterbox = box}},
      {"Darknet's jitter", {.darknet_jitter = DarknetJitter::Options{.size = {128, 128}}}},
      {"multi-scale", {.letterbox = box, .multi_scale = MultiScaleOptions{.sizes = {64, 96, 128}}}},
      {"multi-scale by image",
       {.fixed_size = ImageSize{9, 9},
        .multi_scale = MultiScaleOptions{.sizes = {64, 96, 128}, .every_batches = 0}}},
      {"mosaic", {.min_sizes = {100}, .mosaic = MosaicOptions{.size = {160, 160}}}},
      {"mosaic of crops",
       {.expand = expand, .min_iou_crop = crop, .mosaic = MosaicOptions{}, .letterbox = box}},
      {"mixup", {.fixed_size = ImageSize{80, 80}, .mixup = MixupOptions{}}, false},
      {"mmdetection's YOLOv3",
       {.expand = expand,
        .min_iou_crop = crop,
        .resize_range = ResizeRange::Options{.low = {64, 64}, .high = {128, 128}},
        .interpolation = Interpolation::kOpenCv}},
      {"all at once",
       {.crop = true,
        .copy_paste = CopyPasteOptions{},
        .photometric_distortion = PhotometricDistortion::Options{},
        .expand = expand,
        .min_iou_crop = crop,
        .mosaic = MosaicOptions{.probability = 0.5},
        .darknet_jitter = DarknetJitter::Options{},
        .multi_scale = MultiScaleOptions{.sizes = {64, 96}, .every_batches = 2},
        .mixup = MixupOptions{.probability = 0.5}},
       false},
  };
  for (NamedOptions& each : all) {
    each.options.masks = true;
    if (each.options.min_sizes.size() == 6) {
      each.options.min_sizes = {80, 100};
      each.options.max_size = 200;
    }
  }
  return all;
}

std::string bytes_of(const Sample& sample) {
  std::string out(sample.image.bgr.begin(), sample.image.bgr.end());
  for (const Instance& object : sample.instances) {
    out += fmt::format("{} {} {} {} {};", object.label, object.box.x1, object.box.y1, object.box.x2,
                       object.box.y2);
  }
  return out;
}

/// Other images, of labels that do not come twice.
TransformPipeline::Partner others(std::int64_t& label) {
  return [&label](Rng& rng) {
    label += 4;
    return test::coded_sample(rng.below(1000), label);
  };
}

TEST(AugmentationProperty, BoxesLabelsAndMasksFollowThePixels) {
  for (const auto& [name, options, colours_stay] : every_augmentation()) {
    const TransformPipeline pipeline(options);
    std::size_t objects = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      SCOPED_TRACE(fmt::format("{}, sample {}", name, i));
      Sample sample = test::coded_sample(i);
      Rng rng(3, RngPurpose::kAugment, i);
      std::int64_t label = 0;
      pipeline.apply(sample, rng, others(label),
                     {.seed = 1, .batch = static_cast<std::int64_t>(i)});
      for (const Instance& object : sample.instances) {
        ASSERT_GE(object.box.x1, 0);
        ASSERT_GE(object.box.y1, 0);
        ASSERT_LE(object.box.x2, static_cast<double>(sample.image.width));
        ASSERT_LE(object.box.y2, static_cast<double>(sample.image.height));
        ASSERT_GT(object.box.width(), 1e-5);
        ASSERT_GT(object.box.height(), 1e-5);
      }
      if (colours_stay) {
        test::expect_objects_fit(sample);
      }
      objects += sample.instances.size();
    }
    EXPECT_GT(objects, 60U) << name;
  }
}

TEST(AugmentationProperty, ChoicesAreAFunctionOfTheGeneratorAndTheBatch) {
  for (const auto& [name, options, colours_stay] : every_augmentation()) {
    const TransformPipeline pipeline(options), same(options);
    std::set<std::string> results;
    for (std::uint64_t i = 0; i < 12; ++i) {
      const auto run = [&](const TransformPipeline& with) {
        Sample sample = test::coded_sample(1);
        Rng rng(3, RngPurpose::kAugment, i);
        std::int64_t label = 0;
        with.apply(sample, rng, others(label), {.seed = 1, .batch = 5});
        return bytes_of(sample);
      };
      const std::string first = run(pipeline);
      EXPECT_EQ(first == run(same), true) << name;
      results.insert(first);
    }
    EXPECT_GE(results.size(), 2U) << name;
  }
}

// --- order

// Both change pixels of the border: photometric distortion comes first, so that what Expand puts
// around keeps its value.
TEST(TransformPipeline, DistortsColoursBeforeItExpands) {
  const TransformPipeline pipeline(
      {.min_sizes = {0},
       .flip = TransformPipeline::Flip::kNone,
       .photometric_distortion = PhotometricDistortion::Options{},
       .expand = Expand::Options{.probability = 1, .min_ratio = 1.9, .fill = 77}});
  for (std::uint64_t i = 0; i < 30; ++i) {
    Sample sample = test::noisy_sample({20, 20}, i);
    for (std::uint8_t& value : sample.image.bgr) {
      value = 200;
    }
    Rng rng(3, RngPurpose::kAugment, i);
    pipeline.apply(sample, rng);
    const auto border = std::count(sample.image.bgr.begin(), sample.image.bgr.end(), 77);
    EXPECT_EQ(border, 3 * (sample.image.height * sample.image.width - 400));
  }
}

TEST(TransformPipeline, MosaicsTakeTheSizeOfTheResize) {
  std::int64_t label = 0;
  const auto size_of = [&](Options options) {
    options.flip = TransformPipeline::Flip::kNone;
    options.mosaic = MosaicOptions{.size = {64, 64}};
    Sample sample = test::coded_sample(1);
    Rng rng(3, RngPurpose::kAugment);
    TransformPipeline(options).apply(sample, rng, others(label));
    EXPECT_FALSE(sample.content.has_value());
    return sample.image.size();
  };
  EXPECT_EQ(size_of({.min_sizes = {0}}), (ImageSize{64, 64}));
  EXPECT_EQ(size_of({.min_sizes = {50}}), (ImageSize{50, 50}));
  EXPECT_EQ(size_of({.fixed_size = ImageSize{40, 60}}), (ImageSize{40, 60}));
  EXPECT_EQ(size_of({.letterbox = Letterbox::Options{.size = {40, 60}}}), (ImageSize{40, 60}));
}

// A crop cuts the object at x = 12; the letterbox then puts a border beside the picture, into which
// the box must not reach.
TEST(TransformPipeline, BoxesOfACropEndAtThePictureNotInTheBorder) {
  const TransformPipeline pipeline(
      {.flip = TransformPipeline::Flip::kNone,
       .crop = true,
       .crop_options = {.type = RandomCrop::Type::kAbsolute, .size = {40, 12}},
       .letterbox = Letterbox::Options{.size = {80, 80}}});
  for (std::uint64_t i = 0; i < 20; ++i) {
    Sample sample = test::noisy_sample({40, 40}, 1);
    test::add_object(sample, {0, 0, 40, 40});
    Rng rng(3, RngPurpose::kAugment, i);
    pipeline.apply(sample, rng);
    ASSERT_EQ(sample.instances.size(), 1U);
    EXPECT_EQ(sample.instances[0].box, (Box{28, 0, 52, 80}));
    EXPECT_EQ(sample.content, (Window{28, 0, {80, 24}}));
  }
}

TEST(TransformPipeline, RefusesOptionsThatContradictEachOther) {
  const auto error = [](const Options& options) {
    return error_of([&] { const TransformPipeline pipeline(options); });
  };
  EXPECT_NE(error({.resize_range = ResizeRange::Options{}, .letterbox = Letterbox::Options{}})
                .find("several transforms decide the size"),
            std::string::npos);
  EXPECT_NE(error({.large_scale_jitter = LargeScaleJitterOptions{}, .fixed_size = ImageSize{5, 5}})
                .find("several transforms"),
            std::string::npos);
  EXPECT_NE(error({.multi_scale = MultiScaleOptions{}}).find("multi-scale has no resize"),
            std::string::npos);
  EXPECT_NE(error({.fixed_size = ImageSize{0, 5}}), "");
  EXPECT_NE(error({.letterbox = Letterbox::Options{.size = {5, 0}}}), "");
  EXPECT_NE(
      error({.letterbox = Letterbox::Options{}, .multi_scale = MultiScaleOptions{.sizes = {0}}}),
      "");
  EXPECT_NE(error({.mixup = MixupOptions{.alpha = -1}}), "");
  for (const Options& options :
       {Options{.mosaic = MosaicOptions{}}, Options{.mixup = MixupOptions{}}}) {
    Sample sample = test::coded_sample(1);
    Rng rng(3, RngPurpose::kAugment);
    EXPECT_NE(error_of([&] { TransformPipeline(options).apply(sample, rng); }).find("no second"),
              std::string::npos);
  }
}

// --- batches

TEST(MultiScale, SizesChangeEveryFewBatchesAndAreAFunctionOfSeedAndBatch) {
  const MultiScaleOptions options{.every_batches = 10};
  Rng unused(1, RngPurpose::kTest);
  std::set<std::int64_t> sizes;
  std::int64_t changes = 0, last = 0;
  for (std::int64_t batch = 0; batch < 2000; ++batch) {
    const ImageSize size = multi_scale_size(options, {.seed = 7, .batch = batch}, unused);
    EXPECT_EQ(size.height, size.width);
    EXPECT_EQ(size, multi_scale_size(options, {.seed = 7, .batch = batch / 10 * 10}, unused));
    changes += size.width == last ? 0 : 1;
    last = size.width;
    sizes.insert(size.width);
  }
  EXPECT_EQ(sizes, std::set<std::int64_t>(options.sizes.begin(), options.sizes.end()));
  EXPECT_NEAR(static_cast<double>(changes), 200 * 0.9, 18);  // the next may be the same
  Rng same(1, RngPurpose::kTest);
  EXPECT_EQ(unused.next_u64(), same.next_u64());
}

std::string bytes_of(const Batch& batch) {
  std::string out(static_cast<const char*>(batch.images.images.data_ptr()),
                  batch.images.images.nbytes());
  for (const Targets& targets : batch.targets) {
    out.append(static_cast<const char*>(targets.boxes.data_ptr()), targets.boxes.nbytes());
    out.append(static_cast<const char*>(targets.labels.data_ptr()), targets.labels.nbytes());
  }
  return out;
}

class AugmentedLoader : public testing::Test {
 protected:
  void SetUp() override {
    data_.add_pictures(9);
    for (auto& annotation : data_.json["annotations"]) {
      const auto box = annotation["bbox"].get<std::vector<double>>();
      annotation["segmentation"] = {
          test::rectangle({box[0], box[1], box[0] + box[2], box[1] + box[3]})};
    }
    CocoDatasetOptions options = data_.options();
    options.keep_segmentation = true;
    dataset_.emplace(options);
  }
  static std::vector<std::string> take(TrainLoader& loader, int batches) {
    std::vector<std::string> all;
    for (int i = 0; i < batches; ++i) {
      all.push_back(bytes_of(loader.next()));
    }
    return all;
  }

  test::DatasetFolder data_;
  std::optional<CocoDataset> dataset_;
};

TEST_F(AugmentedLoader, BatchesAreBitEqualForAnyNumberOfThreadsAndAfterRestore) {
  for (const auto& [name, options, colours_stay] : every_augmentation()) {
    const TransformPipeline transforms(options);
    const auto loader_options = [](int threads) {
      return LoaderOptions{
          .batch_size = 2, .threads = threads, .seed = 6, .collate = {.masks = true}};
    };
    TrainLoader straight(*dataset_, transforms, loader_options(0));
    std::vector<std::string> expected = take(straight, 5);
    const std::string state = straight.state();
    const std::vector<std::string> later = take(straight, 7);
    expected.insert(expected.end(), later.begin(), later.end());
    for (const int threads : {1, 4}) {
      TrainLoader loader(*dataset_, transforms, loader_options(threads));
      EXPECT_EQ(take(loader, 12) == expected, true) << name << ", " << threads << " threads";
      TrainLoader resumed(*dataset_, transforms, loader_options(threads));
      take(resumed, 2);
      resumed.restore(state);
      EXPECT_EQ(take(resumed, 7) == later, true) << name << ", restored, " << threads;
    }
  }
}

TEST_F(AugmentedLoader, AllImagesOfABatchHaveItsSizeOnAllRanks) {
  const MultiScaleOptions scale{.sizes = {32, 64, 96}, .every_batches = 3};
  const TransformPipeline transforms({.fixed_size = ImageSize{32, 32}, .multi_scale = scale});
  for (const bool grouping : {false, true}) {
    for (const std::int64_t rank : {0, 1}) {
      TrainLoader loader(*dataset_, transforms,
                         {.batch_size = 4,
                          .threads = 2,
                          .seed = 11,
                          .rank = rank,
                          .world_size = 2,
                          .aspect_ratio_grouping = grouping});
      std::set<std::int64_t> sizes;
      for (std::int64_t batch = 0; batch < 30; ++batch) {
        Rng unused(1, RngPurpose::kTest);
        const ImageSize size = multi_scale_size(scale, {.seed = 11, .batch = batch}, unused);
        sizes.insert(size.width);
        EXPECT_EQ(loader.next().images.sizes, std::vector<ImageSize>(2, size)) << batch;
      }
      EXPECT_EQ(sizes.size(), 3U);
    }
  }
}

TEST(BatchSampler, DrawsKnowTheNumberOfTheirBatch) {
  const std::vector<bool> wide = {true, false, true, true, false, false, true};
  for (const std::vector<bool>& grouping : {std::vector<bool>{}, wide}) {
    BatchSampler sampler({.size = 7, .batch_size = 3, .seed = 2, .is_wide = grouping});
    for (std::int64_t batch = 0; batch < 40; ++batch) {
      for (const Draw& draw : sampler.next()) {
        EXPECT_EQ(draw.batch, batch);
      }
      if (batch % 7 == 3) {
        BatchSampler::State state = sampler.from_json(sampler.to_json(sampler.state()));
        sampler.restore(std::move(state));
      }
    }
  }
}

// FIELD_REPORTS F106: of several images, the one that cannot be read is named.
TEST_F(AugmentedLoader, APartnerOfAMosaicThatCannotBeReadIsNamed) {
  files::write_atomic(data_.folder / "p1.png", "broken");
  const TransformPipeline transforms(
      {.masks = true, .mosaic = MosaicOptions{}, .fixed_size = ImageSize{64, 64}});
  TrainLoader loader(*dataset_, transforms, {.batch_size = 1, .threads = 0});
  int bad = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string error = error_of([&] { loader.next(); });
    EXPECT_TRUE(error.empty() || error.find("p1.png") != std::string::npos) << error;
    bad += error.empty() ? 0 : 1;
  }
  EXPECT_GT(bad, 3);
}

}  // namespace
}  // namespace detforge
