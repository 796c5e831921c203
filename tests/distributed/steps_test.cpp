#include <fstream>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/allocator.h"
#include "detforge/distributed/gradient_reducer.h"
#include "detforge/distributed/single_process.h"
#include "detforge/models/rcnn/faster_rcnn.h"
#include "detforge/models/synchronise_norms.h"
#include "detforge/models/yolo/yolov3.h"
#include "detforge/train/same_weights.h"
#include "detforge/train/step.h"
#include "distributed/ranks.h"
#include "support/torch/random_boxes.h"
#include "support/torch/small_resnet.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

/// All anchors become proposals, and all proposals are trained: nothing that rounding in the last
/// bit could tip over.
constexpr std::int64_t kAll = 10'000;

std::shared_ptr<Detector> make_rcnn(bool has_masks, std::int64_t most_rois) {
  FasterRcnnOptions options;
  options.resnet = test::small_resnet();
  options.fpn = {.out_channels = 64};
  options.rpn.anchors.sizes = {{16}, {32}, {64}, {128}, {256}};
  options.rpn.anchors.aspect_ratios = {{1.0}};
  options.rpn.sampling.batch_size = most_rois;
  options.rpn.train = {.pre_nms_top_k = most_rois, .post_nms_top_k = most_rois};
  options.roi_heads.batch_size_per_image = most_rois;
  options.roi_heads.box_head.fc_dim = 64;
  options.roi_heads.output.num_classes = 2;
  if (most_rois == kAll) {
    options.rpn.train.nms_threshold = 1;
  }
  if (has_masks) {
    options.roi_heads.mask_head = MaskHeadOptions{.num_conv = 2, .conv_dim = 32};
  }
  return std::make_shared<FasterRcnn>(options, 4);
}

std::shared_ptr<Detector> make_yolo() {
  YoloV3Options options;
  options.darknet = {.stem_channels = 4, .blocks = {1, 1, 1, 1, 1}, .norm = NormType::kSyncBn};
  options.neck.widths = {16, 16, 8};
  options.neck.norm = NormType::kSyncBn;
  options.head.widths = {32, 16, 16};
  options.head.norm = NormType::kSyncBn;
  options.layout.num_classes = 2;
  return std::make_shared<YoloV3>(options, 4);
}

using Make = std::function<std::shared_ptr<Detector>()>;
struct Model {
  const char* name;
  Make make;
  double lr;
};
std::vector<Model> models() {
  return {{"Faster R-CNN", [] { return make_rcnn(false, kAll); }, 2e-5},
          {"Mask R-CNN", [] { return make_rcnn(true, kAll); }, 2e-5},
          {"YOLOv3", [] { return make_yolo(); }, 2e-6}};
}

/// Images first, first + stride, ... of a step of `count`; image 0 has two objects with masks,
/// others one, every fifth none.
Batch images_of_step(std::int64_t step,
                     std::int64_t count,
                     std::int64_t first,
                     std::int64_t stride) {
  Batch batch;
  std::vector<Tensor> pixels;
  for (std::int64_t i = first; i < count; i += stride) {
    const std::int64_t number = step * count + i;
    Tensor image = test::random_tensor({3, 64, 96}, static_cast<std::uint64_t>(number)) * 0.5;
    std::vector<Tensor> boxes;
    std::vector<std::int64_t> labels;
    Targets targets;
    const std::int64_t objects = number % 5 == 4 ? 0 : i == 0 ? 2 : 1;
    for (std::int64_t object = 0; object < objects; ++object) {
      const std::int64_t x = 4 + 40 * object + number % 7, y = 6 + number % 11, label = object;
      image.slice(1, y, y + 24).slice(2, x, x + 30).fill_(label == 0 ? 2 : -2);
      const auto left = static_cast<double>(x), top = static_cast<double>(y);
      boxes.push_back(torch::tensor({left, top, left + 30, top + 24}, at::kFloat));
      labels.push_back(label);
      targets.masks.push_back(
          {.polygons = {{left, top, left + 30, top, left + 30, top + 24, left, top + 24}},
           .rle = {}});
    }
    targets.boxes = boxes.empty() ? torch::zeros({0, 4}) : torch::stack(boxes);
    targets.labels = torch::tensor(labels, torch::kLong);
    pixels.push_back(image);
    batch.images.sizes.push_back({64, 96});
    batch.images.image_ids.push_back(number);
    batch.images.paths.push_back("image " + std::to_string(number));
    batch.images.rng_keys.push_back(static_cast<std::uint64_t>(number));
    batch.targets.push_back(targets);
  }
  batch.images.images = torch::stack(pixels);
  batch.images.original_sizes = batch.images.sizes;
  return batch;
}

struct TrainedRun {
  std::vector<double> losses;  ///< of each step, all terms
  std::shared_ptr<Detector> detector;
};

struct Plan {
  int steps = 20;
  std::int64_t images = 2;
  bool is_deterministic = false;
  std::int64_t accumulation_steps = 1;
};

TrainedRun train_on(Communicator& communicator, const Model& model, const Plan& plan) {
  at::set_num_threads(1);
  configure_malloc(TensorSource::kMalloc);  // keeps the memory of a step for the next
  TrainedRun run{.losses = {}, .detector = model.make()};
  synchronise_norms(*run.detector, communicator);
  run.detector->train();
  Sgd optimizer(
      *run.detector,
      {.momentum = 0.9, .clip = {.type = GradientClipOptions::Type::kFullModel, .value = 10}});
  std::unique_ptr<GradientReducer> reducer;
  if (communicator.world_size() > 1) {
    reducer = std::make_unique<GradientReducer>(
        optimizer.parameters(), communicator,
        GradientReducerOptions{.bucket_bytes = 100'000, .is_deterministic = plan.is_deterministic});
  }
  for (int step = 0; step < plan.steps; ++step) {
    const Batch batch =
        images_of_step(step, plan.images, communicator.rank(), communicator.world_size());
    const StepResult result = train_step(*run.detector, optimizer, communicator, batch,
                                         {.lr = model.lr,
                                          .accumulation_steps = plan.accumulation_steps,
                                          .reducer = reducer.get(),
                                          .is_deterministic = plan.is_deterministic});
    EXPECT_TRUE(result.updated()) << result.nonfinite;
    EXPECT_EQ(result.images, plan.images);
    for (const auto& [name, value] : result.losses) {
      run.losses.push_back(value);
    }
  }
  return run;
}

void expect_equal_runs(const Model& model, const Plan& plan, std::int64_t world) {
  test::Ranks ranks(world);
  ranks.timeout = std::chrono::seconds(120);
  EXPECT_EQ(ranks.run([&](Communicator& communicator) {
    const TrainedRun together = train_on(communicator, model, plan);
    check_same_weights(communicator, *together.detector, "at the end");
    if (communicator.rank() > 0) {
      return;
    }
    SingleProcess single;
    Plan whole = plan;
    whole.accumulation_steps = 1;
    const TrainedRun alone = train_on(single, model, whole);
    ASSERT_EQ(together.losses.size(), alone.losses.size());
    for (std::size_t i = 0; i < alone.losses.size(); ++i) {
      const double scale = std::max(1.0, std::abs(alone.losses[i]));
      EXPECT_NEAR(together.losses[i], alone.losses[i], 1e-6 * scale) << model.name << " loss " << i;
    }
    const auto expected = alone.detector->named_parameters();
    const auto start = model.make()->named_parameters();
    double moved = 0;
    for (const auto& item : together.detector->named_parameters()) {
      EXPECT_LT((item.value() - expected[item.key()]).abs().max().item<double>(), 1e-5)
          << model.name << " " << item.key();
      moved = std::max(moved, (item.value() - start[item.key()]).abs().max().item<double>());
    }
    EXPECT_GT(moved, 2e-5) << model.name;
    const auto buffers = alone.detector->named_buffers();
    for (const auto& item : together.detector->named_buffers()) {
      EXPECT_TRUE(torch::allclose(item.value(), buffers[item.key()], 1e-4, 1e-5))
          << model.name << " " << item.key();
    }
  }),
            0)
      << model.name << "\n"
      << ranks.log(1);
}

TEST(RanksEqualOneSlow, TwoRanksOfOneImageAreOneRankOfTwo) {
  for (const Model& model : models()) {
    expect_equal_runs(model, {}, 2);
  }
}

TEST(RanksEqualOneSlow, UnevenPartsAndAccumulation) {
  for (const Model& model : models()) {
    expect_equal_runs(model, {.steps = 5, .images = 5}, 3);
  }
  expect_equal_runs(models()[1], {.steps = 5, .images = 5, .accumulation_steps = 2}, 2);
}

TEST(DeterministicRanksSlow, TheSameWeightsForOneTwoFourAndEightRanks) {
  const Model model{"Mask R-CNN", [] { return make_rcnn(true, 32); }, 0.01};
  const test::TemporaryFolder folder;
  std::vector<std::string> hashes;
  for (const std::int64_t world : {1, 2, 4, 8}) {
    test::Ranks ranks(world);
    ranks.timeout = std::chrono::seconds(120);
    EXPECT_EQ(ranks.run([&](Communicator& communicator) {
      const TrainedRun run =
          train_on(communicator, model, {.steps = 50, .images = 8, .is_deterministic = true});
      check_same_weights(communicator, *run.detector, "at the end");
      if (communicator.rank() == 0) {
        std::ofstream(folder / "hash") << hash_of_weights(*run.detector);
      }
    }),
              0)
        << ranks.log(1);
    std::string hash;
    std::ifstream(folder / "hash") >> hash;
    hashes.push_back(hash);
  }
  EXPECT_EQ(hashes, std::vector<std::string>(4, hashes[0]));
  EXPECT_FALSE(hashes[0].empty());
}

// A rank whose losses are NaN, or whose model throws: no rank updates, and all know why.
TEST(FoundInf, AllRanksSkipTheSameStep) {
  test::Ranks ranks(3);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    const auto detector = make_rcnn(true, 32);
    detector->train();
    Sgd optimizer(*detector, {});
    GradientReducer reducer(optimizer.parameters(), communicator, {});
    Precision precision(precision_options(OptLevel::kO1));
    for (int step = 0; step < 4; ++step) {
      Batch batch = images_of_step(step, 3, communicator.rank(), 3);
      const bool is_bad = step == 2 && communicator.rank() == 1;
      if (is_bad) {
        batch.images.images.fill_(std::numeric_limits<float>::infinity());
      }
      const std::uint64_t before = hash_of_weights(*detector);
      const double scale = precision.scaler().scale();
      const StepResult result =
          train_step(*detector, optimizer, communicator, batch,
                     {.lr = 0.01, .precision = &precision, .reducer = &reducer});
      EXPECT_EQ(result.updated(), step != 2);
      EXPECT_EQ(hash_of_weights(*detector) == before, step == 2);
      EXPECT_EQ(result.is_own_fault, is_bad);
      EXPECT_EQ(precision.scaler().scale(), step == 2 ? scale / 2 : scale);
      if (step == 2 && communicator.rank() == 0) {
        EXPECT_NE(result.nonfinite.find("rank 1: "), std::string::npos) << result.nonfinite;
      }
    }
    check_same_weights(communicator, *detector, "at the end");
  }),
            0)
      << ranks.log(1) << ranks.log(2);
}

TEST(SameWeights, NamesTheRankThatDiffers) {
  test::Ranks ranks(3);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    const auto detector = make_yolo();
    check_same_weights(communicator, *detector, "at the start");
    if (communicator.rank() == 2) {
      const torch::NoGradGuard no_grad;
      detector->parameters()[3].view(-1)[0].add_(1e-6);
    }
    std::string said;
    try {
      check_same_weights(communicator, *detector, "after a step");
    } catch (const Error& error) {
      said = error.message();
    }
    EXPECT_EQ(said, "after a step, the weights of rank(s) 2 are not those of rank 0");
  }),
            0)
      << ranks.log(1);
}

}  // namespace
}  // namespace detforge
