#include "detforge/models/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// Integers that sort as scores fall, NaN first: the score's bits, turned round, above its index,
/// so that ties keep their order. Comparing them reads nothing else.
std::vector<std::uint64_t> sort_keys(const float* scores, std::int64_t count) {
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(scores[i] + 0.0F);  // -0 becomes 0
    const std::uint32_t rising = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    const std::uint32_t falling = std::isnan(scores[i]) ? 0 : ~rising;
    keys[i] = static_cast<std::uint64_t>(falling) << 32 | static_cast<std::uint32_t>(i);
  }
  return keys;
}

}  // namespace

Tensor top_k_indices(const Tensor& scores, std::int64_t k) {
  const Tensor host = scores.detach().to(torch::kCPU, torch::kFloat).contiguous();
  DETFORGE_CHECK(host.numel() < std::numeric_limits<std::int32_t>::max(),
                 "the best of " + std::to_string(host.numel()) + " scores are wanted",
                 "use smaller images");
  std::vector<std::uint64_t> keys = sort_keys(host.data_ptr<float>(), host.numel());
  const auto end = keys.begin() + std::min<std::int64_t>(k, host.numel());
  if (end != keys.end()) {
    std::nth_element(keys.begin(), end, keys.end());
  }
  std::sort(keys.begin(), end);
  Tensor indices = torch::empty({end - keys.begin()}, torch::kLong);
  std::transform(keys.begin(), end, indices.data_ptr<std::int64_t>(), [](std::uint64_t key) {
    return static_cast<std::int64_t>(key & std::numeric_limits<std::uint32_t>::max());
  });
  return indices.to(scores.device());
}

}  // namespace detforge
