#pragma once

#include <string>

#include <torch/types.h>

#include "detforge/core/rng.h"
#include "detforge/data/batch_source.h"
#include "detforge/models/detector.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/map_type.h"
#include "detforge/train/loop.h"

namespace detforge::test {

/// The smallest real detector: one convolution that learns to reproduce each image's mean, and a
/// buffer that counts its forward passes. Deterministic.
class ToyDetector : public Detector {
 public:
  ToyDetector() {
    Rng rng(1, RngPurpose::kInit);
    Tensor init = torch::empty({2, 3, 3, 3});
    for (std::int64_t i = 0; i < init.numel(); ++i) {
      init.data_ptr<float>()[i] = static_cast<float>(rng.uniform(-0.5, 0.5));
    }
    weight = register_parameter("weight", init);
    bias = register_parameter("bias", torch::zeros({2}));
    passes = register_buffer("passes", torch::zeros({}, torch::kLong));
  }

  LossMap losses(const ImageBatch& images,
                 const std::vector<Targets>&,
                 const LossCounts* whole = nullptr) override {
    passes += 1;
    const Tensor response =
        widen(conv2d(input_map(images), weight, bias, Conv2dOptions{.padding = {1, 1}}));
    const Tensor error = response - images.images.mean({1, 2, 3}, true);
    const double images_in_all =
        static_cast<double>(whole != nullptr ? whole->images : images.count());
    const double part = static_cast<double>(images.count()) / images_in_all;
    const auto count = static_cast<double>(images.count());
    return {{"loss_cls", part * error.square().mean(), count},
            {"loss_box_reg", part * 0.1 * error.abs().mean(), count}};
  }
  std::vector<Detections> predict(const ImageBatch&) override { return {}; }

  Tensor weight, bias, passes;
};

/// Batches of two small random images; number i is a pure function of i.
class ToySource : public BatchSource {
 public:
  Batch next() override {
    Rng rng(7, RngPurpose::kTest, index_);
    Batch batch;
    batch.images.images = torch::empty({2, 3, 8, 8});
    for (std::int64_t i = 0; i < batch.images.images.numel(); ++i) {
      batch.images.images.data_ptr<float>()[i] = static_cast<float>(rng.normal());
    }
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto id = static_cast<std::int64_t>(index_) * 2 + i;
      batch.images.sizes.push_back({8, 8});
      batch.images.original_sizes.push_back({8, 8});
      batch.images.image_ids.push_back(id);
      batch.images.paths.push_back("image" + std::to_string(id) + ".jpg");
      batch.images.rng_keys.push_back(rng.next_u64());
      batch.targets.push_back({torch::zeros({0, 4}), torch::zeros({0}, torch::kLong)});
    }
    ++index_;
    return batch;
  }
  std::string state() const override { return std::to_string(index_); }
  void restore(const std::string& state) override { index_ = std::stoull(state); }

 private:
  std::uint64_t index_ = 0;
};

/// A function as a hook.
class CallHook : public Hook {
 public:
  explicit CallHook(std::function<void(const StepReport&)> call) : call_(std::move(call)) {}
  void after_step(const StepReport& report) override { call_(report); }

 private:
  std::function<void(const StepReport&)> call_;
};

}  // namespace detforge::test
