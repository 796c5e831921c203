#include "detforge/data/loader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/rng.h"
#include "detforge/core/timer.h"
#include "detforge/data/partner.h"

namespace detforge {
namespace {

/// Tells data sets apart by ids and names of their images in order, wherever they are stored.
std::uint64_t fingerprint(const CocoDataset& dataset) {
  std::uint64_t hash = files::fnv1a64({});
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    hash = files::fnv1a64(fmt::format("{} {}\n", dataset.image_id(i), dataset.file_name(i)), hash);
  }
  return hash;
}

BatchSampler::Options sampler_options(const CocoDataset& dataset, const LoaderOptions& options) {
  return {.size = dataset.size(),
          .batch_size = options.batch_size,
          .seed = options.seed,
          .rank = options.rank,
          .world_size = options.world_size,
          .repeat_factors = options.repeat_threshold > 0
                                ? dataset.repeat_factors(options.repeat_threshold)
                                : std::vector<double>{},
          .is_wide = options.aspect_ratio_grouping ? dataset.is_wide() : std::vector<bool>{},
          .data_fingerprint = fingerprint(dataset)};
}

}  // namespace

TrainLoader::TrainLoader(const CocoDataset& dataset,
                         const TransformPipeline& transforms,
                         LoaderOptions options)
    : dataset_(dataset),
      transforms_(transforms),
      options_(std::move(options)),
      sampler_(sampler_options(dataset, options_)) {
  start();
}

void TrainLoader::start() {
  const auto plan = [this] {
    std::vector<Draw> draws = sampler_.next();
    return std::optional(BatchPipeline::Job{std::move(draws), sampler_.state()});
  };
  pipeline_ = std::make_unique<BatchPipeline>(
      BatchPipeline::Stages{.plan = plan,
                            .load = [this](const Draw& draw) { return std::optional(load(draw)); },
                            .collate =
                                [this](const std::vector<Sample>& samples) {
                                  return collate(samples, options_.collate);
                                }},
      options_.threads, options_.prefetch);
}

Sample TrainLoader::load(const Draw& draw) const {
  const auto epoch = static_cast<std::uint64_t>(draw.epoch),
             position = static_cast<std::uint64_t>(draw.position);
  Sample sample = dataset_.get(draw.index);
  Rng rng(options_.seed, RngPurpose::kAugment, epoch, position);
  transforms_.apply(sample, rng, random_partner(dataset_),
                    {.seed = options_.seed, .batch = draw.batch});
  sample.rng_key = Rng(options_.seed, RngPurpose::kRoiSampling, epoch, position).next_u64();
  return sample;
}

Batch TrainLoader::next() {
  const Timer timer;
  BatchPipeline::Result result = *pipeline_->next();  // the plan never ends
  state_ = std::move(result.state_after);
  wait_s_ = timer.elapsed_s();
  return std::move(result.batch);
}

std::string TrainLoader::state() const {
  return sampler_.to_json(state_);
}

void TrainLoader::restore(const std::string& state) {
  state_ = sampler_.from_json(state);
  pipeline_.reset();  // ends the threads that draw from the sampler
  sampler_.restore(state_);
  start();
}

EvalLoader::EvalLoader(const CocoDataset& dataset,
                       const TransformPipeline& transforms,
                       LoaderOptions options)
    : dataset_(dataset),
      transforms_(transforms),
      options_(std::move(options)),
      range_(inference_shard(dataset.size(), options_.rank, options_.world_size)) {
  DETFORGE_CHECK(options_.batch_size > 0, fmt::format("batch size is {}", options_.batch_size),
                 "use 1 or more");
  const auto load = [this](const Draw& draw) {
    std::optional<Sample> sample = dataset_.get_or_skip(draw.index, /*masks=*/false);
    if (sample) {
      Rng rng(0, RngPurpose::kAugment);
      transforms_.apply(*sample, rng);
    }
    return sample;
  };
  pipeline_ = std::make_unique<BatchPipeline>(
      BatchPipeline::Stages{.plan = [this] { return plan(); },
                            .load = load,
                            .collate =
                                [this](const std::vector<Sample>& samples) {
                                  return collate(samples, options_.collate);
                                }},
      options_.threads, options_.prefetch);
}

std::optional<BatchPipeline::Job> EvalLoader::plan() {
  BatchPipeline::Job job;
  const std::int64_t end = std::min(planned_ + options_.batch_size, size());
  for (; planned_ < end; ++planned_) {
    job.draws.push_back({.index = range_.begin + planned_, .epoch = 0, .position = planned_});
  }
  return job.draws.empty() ? std::nullopt : std::optional(std::move(job));
}

std::optional<Batch> EvalLoader::next() {
  std::optional<BatchPipeline::Result> result = pipeline_->next();
  return result ? std::optional(std::move(result->batch)) : std::nullopt;
}

}  // namespace detforge
