#include "detforge/data/resize_kernels.h"

#include <algorithm>
#include <cmath>

namespace detforge::resize_detail {

AxisWeights triangle_weights(std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(scale, 1.0);
  AxisWeights axis;
  axis.taps = static_cast<std::int64_t>(std::ceil(support)) * 2 + 2;
  axis.weights.assign(static_cast<std::size_t>(out * axis.taps), 0);
  std::vector<double> exact(static_cast<std::size_t>(axis.taps));
  for (std::int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const auto last = std::min(in, static_cast<std::int64_t>(center + support + 0.5));
    double sum = 0;
    for (std::int64_t k = 0; k < last - first; ++k) {
      const double distance = (static_cast<double>(k + first) - center + 0.5) * (1.0 / support);
      exact[static_cast<std::size_t>(k)] = std::max(0.0, 1.0 - std::abs(distance));
      sum += exact[static_cast<std::size_t>(k)];
    }
    std::int32_t* weights = axis.weights.data() + i * axis.taps;
    for (std::int64_t k = 0; k < last - first; ++k) {
      const double share = sum != 0 ? exact[static_cast<std::size_t>(k)] / sum : 0.0;
      weights[k] = static_cast<std::int32_t>(0.5 + share * (1 << kPrecisionBits));
    }
    axis.first.push_back(first);
    axis.count.push_back(last - first);
    axis.most = std::max(axis.most, last - first);
  }
  return axis;
}

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

namespace {

class PortableKernels : public Kernels {
 public:
  PortableKernels(const AxisWeights& x, const AxisWeights& y) : x_(x), y_(y) {}

  void row(const std::uint8_t* in, std::uint8_t* out) override {
    for (std::size_t x = 0; x < x_.first.size(); ++x, out += 3) {
      const std::uint8_t* pixel = in + x_.first[x] * 3;
      const std::int32_t* weights = x_.weights.data() + x * static_cast<std::size_t>(x_.taps);
      std::int32_t sums[3] = {kHalf, kHalf, kHalf};
      for (std::int64_t k = 0; k < x_.count[x]; ++k, pixel += 3) {
        for (int channel = 0; channel < 3; ++channel) {
          sums[channel] += pixel[channel] * weights[k];
        }
      }
      std::transform(sums, sums + 3, out, to_byte);
    }
  }

  void column(const std::uint8_t* const* rows,
              std::uint8_t* out,
              std::int64_t y,
              std::int64_t bytes) override {
    sums_.assign(static_cast<std::size_t>(bytes), kHalf);
    const std::int32_t* weights = y_.weights.data() + y * y_.taps;
    for (std::int64_t k = 0; k < y_.count[static_cast<std::size_t>(y)]; ++k) {
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        sums_[i] += rows[k][i] * weights[k];
      }
    }
    std::transform(sums_.begin(), sums_.end(), out, to_byte);
  }

 private:
  const AxisWeights& x_;
  const AxisWeights& y_;
  std::vector<std::int32_t> sums_;
};

}  // namespace

std::unique_ptr<Kernels> make_portable_kernels(const AxisWeights& x, const AxisWeights& y) {
  return std::make_unique<PortableKernels>(x, y);
}

}  // namespace detforge::resize_detail
