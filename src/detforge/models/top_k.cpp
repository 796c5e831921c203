#include "detforge/models/top_k.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <torch/types.h>

namespace detforge {

Tensor top_k_indices(const Tensor& scores, std::int64_t k) {
  const Tensor host = scores.detach().to(torch::kCPU, torch::kFloat).contiguous();
  const float* score = host.data_ptr<float>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(host.numel()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto before = [score](std::int64_t a, std::int64_t b) {
    const bool a_is_nan = std::isnan(score[a]);
    const bool b_is_nan = std::isnan(score[b]);
    if (a_is_nan || b_is_nan || score[a] == score[b]) {
      return a_is_nan != b_is_nan ? a_is_nan : a < b;
    }
    return score[a] > score[b];
  };
  const auto end = order.begin() + std::min<std::int64_t>(k, host.numel());
  if (end != order.end()) {
    std::nth_element(order.begin(), end, order.end(), before);
  }
  std::sort(order.begin(), end, before);
  order.erase(end, order.end());
  return torch::tensor(order, torch::kLong).to(scores.device());
}

}  // namespace detforge
