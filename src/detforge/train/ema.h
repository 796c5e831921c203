#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/train/optimizer.h"

namespace detforge {

struct EmaOptions {
  double decay = 0.9999;  ///< weight of what was averaged before, in [0, 1)
  double tau = 2000;      ///< warm-up: after so many updates the decay is 63 % of `decay`; 0: none
};

/// Exponential moving average of a model's weights, for evaluation:
///   average <- d average + (1 - d) weights,   d = decay (1 - exp(-updates / tau)),   updates = 1,
///   2, ...
/// Covers every parameter and buffer; those that are not floating point are copied. Begins as the
/// weights at construction. The model's tensors are borrowed, and must keep shape and memory
/// layout. One pass over memory; the same result for any number of threads. Not thread-safe.
///   Ema ema(model, {.decay = 0.9998});
///   optimizer.step(lr);
///   ema.update();
///   { const Ema::Applied averaged(ema);  evaluate(model); }
/// Ref: Polyak averaging as Ultralytics' ModelEMA does it.
class Ema {
 public:
  /// `after_swap` is called whenever Applied has exchanged weights and average: where the model's
  /// own tensors are 16-bit copies of the weights (Sgd::keep_in), they follow. To be made after the
  /// optimizer and before keep_in(), so that the weights are the f32 ones. Throws Error if the
  /// options are out of range.
  Ema(const torch::nn::Module& model, EmaOptions options, std::function<void()> after_swap = {});

  /// Begins anew: the average is the weights as they are now.
  void restart();
  /// Takes the weights of one more step in.
  void update();
  /// Steps averaged so far.
  std::int64_t updates() const { return updates_; }

  /// The average by name, in the order of model_state(); shares storage.
  NamedTensors state() const;
  /// Copies an average in. Throws Error unless names and shapes are exactly those of state().
  void load_state(const NamedTensors& state, std::int64_t updates);

  /// While it lives, the model holds the average, and `ema` the weights: neither trains, saves nor
  /// updates.
  class Applied {
   public:
    explicit Applied(Ema& ema);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    Ema& ema_;
  };

 private:
  struct Slot {
    std::string name;
    Tensor weight, average;  ///< of one shape and memory layout
  };
  void swap() noexcept;

  EmaOptions options_;
  std::function<void()> after_swap_;
  std::vector<Slot> slots_;
  std::int64_t updates_ = 0;
};

}  // namespace detforge
