#include "support/torch/random_boxes.h"

#include <torch/types.h>

#include "detforge/core/rng.h"

namespace detforge::test {

Tensor random_tensor(const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest);
  Tensor values = torch::empty(shape, torch::kFloat);
  float* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    out[i] = static_cast<float>(rng.uniform(-1.0, 1.0));
  }
  return values;
}

Tensor random_boxes(std::int64_t count, double extent, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest, 1);
  Tensor boxes = torch::empty({count, 4}, torch::kFloat);
  float* out = boxes.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i, out += 4) {
    for (int axis = 0; axis < 2; ++axis) {
      const double low = rng.uniform(0.0, extent - 1.0);
      out[axis] = static_cast<float>(low);
      out[axis + 2] = static_cast<float>(rng.uniform(low + 1.0, extent));
    }
  }
  return boxes;
}

}  // namespace detforge::test
