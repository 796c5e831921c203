#include "detforge/models/sampling.h"

#include <algorithm>
#include <vector>

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

// Keeps a uniformly random subset of `count` items, in their old order.
void keep_random(std::vector<std::int64_t>& items, std::int64_t count, Rng& rng) {
  const auto keep = static_cast<std::size_t>(count);
  if (items.size() <= keep) {
    return;
  }
  for (std::size_t i = 0; i < keep; ++i) {  // the first `keep` steps of a Fisher-Yates shuffle
    std::swap(items[i], items[i + rng.below(items.size() - i)]);
  }
  items.resize(keep);
  std::sort(items.begin(), items.end());
}

Tensor to_tensor(const std::vector<std::int64_t>& items, at::Device device) {
  return torch::tensor(items, torch::kLong).to(device);
}

}  // namespace

SampledIndices subsample_labels(const Tensor& labels, const SamplingOptions& options, Rng rng) {
  DETFORGE_CHECK(options.batch_size >= 0 && options.positive_fraction >= 0.0 &&
                     options.positive_fraction <= 1.0,
                 "cannot sample " + std::to_string(options.batch_size) +
                     " labels with a positive fraction of " +
                     std::to_string(options.positive_fraction),
                 "use a batch size of at least 0 and a fraction in [0, 1]");
  const Tensor host = labels.to(torch::kCPU, torch::kLong).contiguous();
  const std::int64_t* label = host.data_ptr<std::int64_t>();
  std::vector<std::int64_t> positive;
  std::vector<std::int64_t> negative;
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    if (label[i] == options.negative_label) {
      negative.push_back(i);
    } else if (label[i] != -1) {
      positive.push_back(i);
    }
  }
  const auto most = static_cast<std::int64_t>(static_cast<double>(options.batch_size) *
                                              options.positive_fraction);
  keep_random(positive, most, rng);
  keep_random(negative, options.batch_size - static_cast<std::int64_t>(positive.size()), rng);
  return {to_tensor(positive, labels.device()), to_tensor(negative, labels.device())};
}

}  // namespace detforge
