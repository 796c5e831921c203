#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace detforge {

/// The order of one epoch over `size` images: a permutation that is a function of (seed, epoch)
/// alone. The epoch is an argument, so it cannot be forgotten.
std::vector<std::int64_t> training_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// As above with repeated images: image i comes floor(f_i) times, and once more with probability
/// f_i - floor(f_i), drawn anew for each epoch. Detectron2's RepeatFactorTrainingSampler.
/// Ref: Gupta et al., LVIS, arXiv:1908.03195, appendix B.2.
std::vector<std::int64_t> repeat_factor_order(const std::vector<double>& repeat_factors,
                                              std::uint64_t seed,
                                              std::int64_t epoch);

/// Repeat factors by category frequency: f(c) = share of images that hold class c, r(c) = max(1,
/// sqrt(t / f(c))), an image's factor is the largest r of its classes, 1 if it has none.
///   labels  for each image, the classes in it (repeats do no harm)
std::vector<double> repeat_factors_from_category_frequency(
    const std::vector<std::vector<std::int64_t>>& labels, double threshold);

/// The images of one rank for inference: a contiguous range [begin, end); the ranges of all ranks
/// cover 0..size-1 exactly, the first size % world_size of them one longer. Detectron2's
/// InferenceSampler.
struct IndexRange {
  std::int64_t begin = 0, end = 0;
};
IndexRange inference_shard(std::int64_t size, std::int64_t rank, std::int64_t world_size);

/// One place in the stream of training images. (epoch, position) is used once only in a run and is
/// the same for every number of ranks and threads, so it keys the sample's random numbers.
struct Draw {
  std::int64_t index = 0;     ///< of the image
  std::int64_t epoch = 0;     ///< pass over the data set, from 0
  std::int64_t position = 0;  ///< within the epoch, over all ranks
  std::int64_t batch = 0;     ///< number of the step's batch that it came in, from 0: what all
                              ///< images of a batch share is keyed by it
  bool operator==(const Draw&) const = default;
};

/// One rank's part of an endless stream of batches. The stream does not know ranks: each batch is
/// what one step sees, and rank r of W takes its images r, r + W, r + 2W, ... So any number of
/// ranks trains on the same images in the same steps, and a state of one is a state of all. (In
/// Detectron2's TrainingSampler with AspectRatioGroupedDataset each rank fills batches of its own,
/// and the steps depend on their number.) With aspect-ratio grouping a batch holds only wide (w >
/// h) or only other images: draws wait in two buckets, and a bucket that is full is the batch. A
/// place in the stream is a small state that is restored without replaying.
class BatchSampler {
 public:
  struct Options {
    std::int64_t size = 0;        ///< images in the data set
    std::int64_t batch_size = 1;  ///< images per batch, over all ranks; at least one for each
    std::uint64_t seed = 0;       ///< the same on all ranks
    std::int64_t rank = 0, world_size = 1;
    std::vector<double> repeat_factors = {};  ///< one per image; empty: each image once per epoch
    std::vector<bool> is_wide = {};           ///< w > h by image; empty: no grouping
    std::uint64_t data_fingerprint = 0;       ///< of the images; only compared by from_json()
  };
  struct State {
    std::int64_t drawn = 0;  ///< from the stream
    std::int64_t epoch = 0;
    std::int64_t epoch_begin = 0;              ///< place of the epoch's first image in the stream
    std::array<std::vector<Draw>, 2> buckets;  ///< wide, others
  };

  /// Throws Error if there are no images or options do not fit each other.
  explicit BatchSampler(Options options);
  /// This rank's draws of the next batch, which know its number: a function of the state, so the
  /// same after a restore.
  std::vector<Draw> next();
  const State& state() const { return state_; }
  /// Takes a state of state() or from_json().
  void restore(State state);

  /// The state as JSON, with the options that it depends on; from_json() throws Error naming what
  /// differs, and for a state that next() cannot have left (a damaged checkpoint).
  std::string to_json(const State& state) const;
  State from_json(const std::string& json) const;

 private:
  Draw draw();
  std::vector<std::int64_t> epoch_order(std::int64_t epoch) const;
  std::size_t bucket_of(std::int64_t index) const;
  std::int64_t batches() const;
  bool is_possible(const State& state) const;
  bool bucket_is_possible(const State& state, std::size_t b) const;
  std::vector<Draw> own_part(const std::vector<Draw>& batch) const;

  Options options_;
  State state_;
  std::vector<std::int64_t> order_;  ///< of state_.epoch
};

}  // namespace detforge
