#include "detforge/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/rng.h"

namespace detforge {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFingerprint = "data_fingerprint";

Rng epoch_rng(RngPurpose purpose, std::uint64_t seed, std::int64_t epoch) {
  return Rng(seed, purpose, static_cast<std::uint64_t>(epoch));
}

Json options_to_json(const BatchSampler::Options& options) {
  return {{"images", options.size},
          {"batch_size", options.batch_size},
          {"seed", options.seed},
          {"grouped", !options.is_wide.empty()},
          {"repeated", !options.repeat_factors.empty()},
          {kFingerprint, fmt::format("{:016x}", options.data_fingerprint)}};
}

/// Throws Error if the saved options are not those of this run.
void check_options(const Json& saved, const Json& options) {
  for (const auto& [key, value] : options.items()) {
    if (saved.at(key) == value) {
      continue;
    }
    const std::string what =
        key == kFingerprint
            ? "the saved place in the data is of another data set, with other image ids or file "
              "names or another order of them"
            : fmt::format("the saved place in the data has {} {}, this run has {}", key,
                          saved.at(key).dump(), value.dump());
    throw Error(
        what,
        "resume with the same data set and settings, or start anew from the weights with --init")
        .at(__FILE__, __LINE__);
  }
}

/// nlohmann::json would turn any number into an integer, 1e300 too.
std::int64_t to_integer(const Json& value) {
  DETFORGE_CHECK(value.is_number_integer(),
                 fmt::format("the saved place in the data has {} for an integer", value.dump()),
                 "resume from another checkpoint");
  return value;
}

}  // namespace

std::vector<std::int64_t> training_order(std::int64_t size,
                                         std::uint64_t seed,
                                         std::int64_t epoch) {
  return epoch_rng(RngPurpose::kShuffle, seed, epoch).permutation(size);
}

std::vector<std::int64_t> repeat_factor_order(const std::vector<double>& repeat_factors,
                                              std::uint64_t seed,
                                              std::int64_t epoch) {
  Rng rng = epoch_rng(RngPurpose::kRepeatFactor, seed, epoch);
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < repeat_factors.size(); ++i) {
    const double whole = std::floor(repeat_factors[i]);
    const bool once_more = rng.uniform() < repeat_factors[i] - whole;
    order.insert(order.end(), static_cast<std::size_t>(whole) + (once_more ? 1 : 0),
                 static_cast<std::int64_t>(i));
  }
  epoch_rng(RngPurpose::kShuffle, seed, epoch).shuffle(order);
  return order;
}

std::vector<double> repeat_factors_from_category_frequency(
    const std::vector<std::vector<std::int64_t>>& labels, double threshold) {
  std::vector<std::vector<std::int64_t>> distinct = labels;
  std::vector<double> images_with;
  for (std::vector<std::int64_t>& image : distinct) {
    std::sort(image.begin(), image.end());
    image.erase(std::unique(image.begin(), image.end()), image.end());
    for (const std::int64_t label : image) {
      images_with.resize(std::max(images_with.size(), static_cast<std::size_t>(label) + 1));
      ++images_with[static_cast<std::size_t>(label)];
    }
  }
  std::vector<double> factors;
  factors.reserve(distinct.size());
  for (const std::vector<std::int64_t>& image : distinct) {
    double factor = 1;
    for (const std::int64_t label : image) {
      const double frequency =
          images_with[static_cast<std::size_t>(label)] / static_cast<double>(distinct.size());
      factor = std::max(factor, std::sqrt(threshold / frequency));
    }
    factors.push_back(factor);
  }
  return factors;
}

IndexRange inference_shard(std::int64_t size, std::int64_t rank, std::int64_t world_size) {
  const std::int64_t shard = size / world_size, left = size % world_size;
  const std::int64_t begin = rank * shard + std::min(rank, left);
  return {begin, begin + shard + (rank < left ? 1 : 0)};
}

BatchSampler::BatchSampler(Options options) : options_(std::move(options)) {
  DETFORGE_CHECK(options_.size > 0, "the data set has no images to train on",
                 "check the annotation file and the filters");
  DETFORGE_CHECK(options_.batch_size > 0, fmt::format("batch size is {}", options_.batch_size),
                 "use 1 or more");
  DETFORGE_CHECK(options_.rank >= 0 && options_.rank < options_.world_size,
                 fmt::format("rank {} of {}", options_.rank, options_.world_size),
                 "ranks go from 0 to world size - 1");
  DETFORGE_CHECK(
      options_.batch_size >= options_.world_size,
      fmt::format("a step of {} images cannot be shared by {} ranks", options_.batch_size,
                  options_.world_size),
      "raise SOLVER.IMS_PER_BATCH, which counts the images of all ranks, or start fewer");
  const auto fits = [&](std::size_t n) {
    return n == 0 || n == static_cast<std::size_t>(options_.size);
  };
  DETFORGE_CHECK(
      fits(options_.repeat_factors.size()) && fits(options_.is_wide.size()),
      fmt::format("{} repeat factors and {} aspect ratios for {} images",
                  options_.repeat_factors.size(), options_.is_wide.size(), options_.size),
      "give one per image or none");
  DETFORGE_CHECK(std::all_of(options_.repeat_factors.begin(), options_.repeat_factors.end(),
                             [](double f) { return f >= 1; }),
                 "a repeat factor is below 1", "use max(1, factor)");
  order_ = epoch_order(state_.epoch);
}

std::vector<std::int64_t> BatchSampler::epoch_order(std::int64_t epoch) const {
  return options_.repeat_factors.empty()
             ? training_order(options_.size, options_.seed, epoch)
             : repeat_factor_order(options_.repeat_factors, options_.seed, epoch);
}

std::size_t BatchSampler::bucket_of(std::int64_t index) const {
  const bool wide = options_.is_wide.empty() || options_.is_wide[static_cast<std::size_t>(index)];
  return wide ? 0 : 1;
}

Draw BatchSampler::draw() {
  const std::int64_t place = state_.drawn++;
  while (place - state_.epoch_begin >= static_cast<std::int64_t>(order_.size())) {
    state_.epoch_begin += static_cast<std::int64_t>(order_.size());
    ++state_.epoch;
    order_ = epoch_order(state_.epoch);
  }
  const std::int64_t position = place - state_.epoch_begin;
  return {.index = order_[static_cast<std::size_t>(position)],
          .epoch = state_.epoch,
          .position = position};
}

std::vector<Draw> BatchSampler::next() {
  while (true) {
    const Draw item = draw();
    std::vector<Draw>& bucket = state_.buckets[bucket_of(item.index)];
    bucket.push_back(item);
    if (static_cast<std::int64_t>(bucket.size()) == options_.batch_size) {
      std::vector<Draw> batch = std::exchange(bucket, {});
      for (Draw& member : batch) {
        member.batch = batches() - 1;
      }
      return own_part(batch);
    }
  }
}

std::vector<Draw> BatchSampler::own_part(const std::vector<Draw>& batch) const {
  std::vector<Draw> part;
  for (std::int64_t i = options_.rank; i < std::ssize(batch); i += options_.world_size) {
    part.push_back(batch[static_cast<std::size_t>(i)]);
  }
  return part;
}

/// Batches handed out: all draws but those that wait in buckets were.
std::int64_t BatchSampler::batches() const {
  const std::int64_t waiting = std::ssize(state_.buckets[0]) + std::ssize(state_.buckets[1]);
  return (state_.drawn - waiting) / options_.batch_size;
}

void BatchSampler::restore(State state) {
  const bool other_epoch = state.epoch != state_.epoch;
  state_ = std::move(state);
  if (other_epoch) {
    order_ = epoch_order(state_.epoch);
  }
}

std::string BatchSampler::to_json(const State& state) const {
  Json json = options_to_json(options_);
  json["drawn"] = state.drawn;
  json["epoch"] = state.epoch;
  json["epoch_begin"] = state.epoch_begin;
  json["buckets"] = Json::array();
  for (const std::vector<Draw>& bucket : state.buckets) {
    Json list = Json::array();
    for (const Draw& item : bucket) {
      list.push_back({item.index, item.epoch, item.position});
    }
    json["buckets"].push_back(std::move(list));
  }
  return json.dump();
}

BatchSampler::State BatchSampler::from_json(const std::string& text) const {
  try {
    const Json json = Json::parse(text);
    check_options(json, options_to_json(options_));
    State state{.drawn = to_integer(json.at("drawn")),
                .epoch = to_integer(json.at("epoch")),
                .epoch_begin = to_integer(json.at("epoch_begin")),
                .buckets = {}};
    for (std::size_t b = 0; b < state.buckets.size(); ++b) {
      for (const Json& item : json.at("buckets").at(b)) {
        state.buckets[b].push_back({.index = to_integer(item.at(0)),
                                    .epoch = to_integer(item.at(1)),
                                    .position = to_integer(item.at(2))});
      }
    }
    DETFORGE_CHECK(is_possible(state), "the saved place in the data cannot come from this run",
                   "the checkpoint is damaged, or the repeat threshold was changed: resume from "
                   "another one, or start anew from the weights with --init");
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("the saved place in the data cannot be read: {}", error.what()),
                "resume from another checkpoint")
        .at(__FILE__, __LINE__);
  }
}

/// Whether next() can have left this state; if not, it could read out of bounds or never end.
bool BatchSampler::is_possible(const State& state) const {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;  // no overflow below
  if (state.drawn < 0 || state.drawn > kFar || state.epoch < 0 ||
      state.epoch > kFar / options_.size || state.epoch_begin < 0) {
    return false;
  }
  const bool by_epochs = options_.repeat_factors.empty();
  if (by_epochs && state.epoch_begin != state.epoch * options_.size) {
    return false;
  }
  // The last draw, if any, was from the state's epoch.
  const std::int64_t position = state.drawn - 1 - state.epoch_begin;
  const bool in_epoch = position >= 0 && position < std::ssize(epoch_order(state.epoch));
  const bool at_start = state.epoch == 0 && state.epoch_begin == 0;
  return (state.drawn == 0 ? at_start : in_epoch) && bucket_is_possible(state, 0) &&
         bucket_is_possible(state, 1);
}

bool BatchSampler::bucket_is_possible(const State& state, std::size_t b) const {
  const std::vector<Draw>& bucket = state.buckets[b];
  return std::ssize(bucket) < options_.batch_size &&
         std::all_of(bucket.begin(), bucket.end(), [&](const Draw& draw) {
           return draw.index >= 0 && draw.index < options_.size && draw.epoch >= 0 &&
                  draw.epoch <= state.epoch && draw.position >= 0 && bucket_of(draw.index) == b;
         });
}

}  // namespace detforge
