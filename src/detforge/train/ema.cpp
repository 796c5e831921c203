#include "detforge/train/ema.h"

#include <cmath>
#include <utility>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/train/chunks.h"
#include "detforge/train/model_state.h"

namespace detforge {
namespace {

/// One pass over plain memory is possible.
bool is_plain(const Tensor& weight, const Tensor& average) {
  return weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         weight.is_non_overlapping_and_dense() && weight.strides() == average.strides();
}

void move_towards(float* __restrict average,
                  const float* __restrict weight,
                  std::int64_t begin,
                  std::int64_t end,
                  float share) {
  for (std::int64_t i = begin; i < end; ++i) {
    average[i] += share * (weight[i] - average[i]);  // exact where both are equal
  }
}

}  // namespace

Ema::Ema(const torch::nn::Module& model, EmaOptions options, std::function<void()> after_swap)
    : options_(options), after_swap_(std::move(after_swap)) {
  DETFORGE_CHECK(options.decay >= 0 && options.decay < 1,
                 "an average of weights with decay " + std::to_string(options.decay),
                 "choose a decay from 0 to below 1, such as 0.9998");
  DETFORGE_CHECK(options.tau >= 0, "an average of weights with tau " + std::to_string(options.tau),
                 "choose a number of steps for the warm-up, or 0 for none");
  for (const auto& [name, weight] : model_state(model)) {
    slots_.push_back({name, weight, weight.clone()});
  }
}

void Ema::restart() {
  const torch::NoGradGuard no_grad;
  for (const Slot& slot : slots_) {
    slot.average.copy_(slot.weight);
  }
  updates_ = 0;
}

void Ema::update() {
  const torch::NoGradGuard no_grad;
  ++updates_;
  const double warmup =
      options_.tau > 0 ? 1.0 - std::exp(-static_cast<double>(updates_) / options_.tau) : 1.0;
  const double share = 1.0 - options_.decay * warmup;
  NamedTensors weights, averages;
  for (const Slot& slot : slots_) {
    if (is_plain(slot.weight, slot.average)) {
      weights.emplace_back(slot.name, slot.weight);
      averages.emplace_back(slot.name, slot.average);
    } else if (slot.weight.is_floating_point()) {
      slot.average.lerp_(slot.weight, share);
    } else {
      slot.average.copy_(slot.weight);
    }
  }
  for_each_chunk(make_chunks(weights), [&](std::size_t, const Chunk& chunk) {
    move_towards(averages[chunk.tensor].second.data_ptr<float>(),
                 weights[chunk.tensor].second.data_ptr<float>(), chunk.begin, chunk.end,
                 static_cast<float>(share));
  });
}

NamedTensors Ema::state() const {
  NamedTensors state;
  for (const Slot& slot : slots_) {
    state.emplace_back(slot.name, slot.average);
  }
  return state;
}

void Ema::load_state(const NamedTensors& state, std::int64_t updates) {
  copy_by_name(state, this->state());
  updates_ = updates;
}

void Ema::swap() noexcept {
  const torch::NoGradGuard no_grad;
  for (const Slot& slot : slots_) {
    const Tensor weight = slot.weight.clone();
    slot.weight.copy_(slot.average);
    slot.average.copy_(weight);
  }
  if (after_swap_) {
    after_swap_();
  }
}

Ema::Applied::Applied(Ema& ema) : ema_(ema) {
  ema_.swap();
}

Ema::Applied::~Applied() {
  ema_.swap();
}

}  // namespace detforge
