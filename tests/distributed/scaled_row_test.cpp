#include "detforge/distributed/scaled_row.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/tensor.h"

namespace detforge {
namespace {

struct Packed {
  std::vector<std::int16_t> words;
  Tensor rest;
};

Packed pack(const Tensor& values, cpu::Storage storage) {
  Packed packed{.words = {}, .rest = values.clone()};
  packed.words.resize(static_cast<std::size_t>(scaled_row::packed_size(values.numel())));
  scaled_row::pack(packed.rest.data_ptr<float>(), values.numel(), storage, packed.words.data());
  return packed;
}

Tensor unpack(const Packed& packed, cpu::Storage storage) {
  Tensor values = torch::full({packed.rest.numel()}, 7.0F);
  scaled_row::unpack(packed.words.data(), values.numel(), storage, values.data_ptr<float>());
  return values;
}

/// As the header writes it, by LibTorch's conversions.
Tensor naive(const Tensor& values, cpu::Storage storage) {
  const double power = std::exp2(13 - std::floor(std::log2(values.abs().max().item<double>())));
  const auto type = storage == cpu::Storage::kHalf ? at::kHalf : at::kBFloat16;
  return (values * power).to(type).to(at::kFloat) / power;
}

constexpr std::array kStorages = {cpu::Storage::kHalf, cpu::Storage::kBFloat16};

TEST(ScaledRow, IsRoundedLikeLibTorchAndLosesNothing) {
  torch::manual_seed(3);
  for (const std::int64_t count : {1, 2, 15, 17, 1001, 2048, 2049, 10'000}) {
    for (const int exponent : {-70, -30, 0, 30, 120}) {
      for (const auto storage : kStorages) {
        // Far apart, so that f16 has subnormal numbers to round, too.
        const Tensor values =
            torch::randn({count}) * torch::exp2(torch::randint(-25, 4, {count}) + exponent);
        const Packed packed = pack(values, storage);
        const Tensor got = unpack(packed, storage);
        EXPECT_TRUE(torch::equal(got, naive(values, storage))) << count << " " << exponent;
        EXPECT_TRUE(torch::equal(got + packed.rest, values)) << count << " " << exponent;
        Tensor sum = torch::ones({count});
        scaled_row::add(packed.words.data(), count, storage, sum.data_ptr<float>());
        EXPECT_TRUE(torch::equal(sum, 1 + got));
        EXPECT_TRUE(scaled_row::is_finite(packed.words.data()));
      }
    }
  }
}

TEST(ScaledRow, SmallestNumbersZerosAndNoValues) {
  for (const auto storage : kStorages) {
    const Tensor smallest = torch::tensor({1e-40F, -3e-45F, 0.0F});
    const Packed packed = pack(smallest, storage);
    EXPECT_TRUE(scaled_row::is_finite(packed.words.data()));
    EXPECT_TRUE(torch::equal(unpack(packed, storage) + packed.rest, smallest));
    EXPECT_TRUE(torch::equal(unpack(pack(torch::zeros({9}), storage), storage), torch::zeros({9})));
    EXPECT_TRUE(scaled_row::is_finite(pack(torch::zeros({0}), storage).words.data()));
  }
}

TEST(ScaledRow, OneValueThatIsNotFiniteTellsOfTheWholeRow) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {INFINITY, -INFINITY, Limits::quiet_NaN(), Limits::max()}) {
    for (const auto storage : kStorages) {
      Tensor values = torch::ones({3000});
      values[2999] = bad;
      const Packed packed = pack(values, storage);
      EXPECT_FALSE(scaled_row::is_finite(packed.words.data()));
      EXPECT_TRUE(unpack(packed, storage).isnan().all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace detforge
