// The convolution kernels beside pages that may not be touched: a read or write one byte past a
// tensor ends the process.

#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/ops/cpu/conv_passes.h"

namespace detforge {
namespace {

using cpu::ConvAlgorithm;
using cpu::ConvShape;

/// An array with a forbidden page directly behind it or directly in front of it.
class GuardedArray {
 public:
  enum class Guard { kBehind, kBefore };

  GuardedArray(std::int64_t count, Guard guard, cpu::Storage storage = cpu::Storage::kFloat)
      : storage_(storage) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto bytes = static_cast<std::size_t>(count * cpu::bytes_of(storage));
    const std::size_t body = (bytes + page - 1) / page * page;
    size_ = body + 2 * page;
    map_ = static_cast<char*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(map_, MAP_FAILED);
    EXPECT_EQ(::mprotect(map_, page, PROT_NONE), 0);
    EXPECT_EQ(::mprotect(map_ + page + body, page, PROT_NONE), 0);
    data_ = guard == Guard::kBehind ? map_ + page + body - bytes : map_ + page;
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(i % 7) - 3;
      if (storage == cpu::Storage::kFloat) {
        data()[i] = value;
      } else {  // the upper half of an f32: bf16, and as f16 as good as any other value
        std::memcpy(data_ + 2 * i, reinterpret_cast<const char*>(&value) + 2, 2);
      }
    }
  }
  ~GuardedArray() { ::munmap(map_, size_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  float* data() const { return reinterpret_cast<float*>(data_); }
  cpu::Map map() const { return {data_, storage_}; }

 private:
  std::size_t size_ = 0;
  cpu::Storage storage_;
  char *map_ = nullptr, *data_ = nullptr;
};

using Guard = GuardedArray::Guard;

/// Every pass with every array guarded, scratch memory too (behind it, to the rounding of 64
/// bytes).
void run_guarded(const cpu::ConvKernels& k,
                 const ConvShape& s,
                 ConvAlgorithm algorithm,
                 Guard guard,
                 cpu::Storage storage) {
  std::vector<std::unique_ptr<GuardedArray>> scratch;
  const cpu::Workspace workspace = [&](std::int64_t floats) {
    scratch.push_back(std::make_unique<GuardedArray>((floats + 15) / 16 * 16, Guard::kBehind));
    return scratch.back()->data();
  };
  const std::int64_t outputs = s.images * s.output(0) * s.output(1) * s.out_channels;
  const std::int64_t inputs = s.images * s.input[0] * s.input[1] * s.in_channels;
  const GuardedArray input(inputs, guard, storage), other(inputs, guard, storage);
  const GuardedArray residual(outputs, guard, storage), output(outputs, guard, storage);
  const GuardedArray weight(s.out_channels * s.in_channels * s.kernel[0] * s.kernel[1], guard);
  const GuardedArray bias(s.out_channels, guard);
  cpu::conv_forward(
      k, s, algorithm, input.map(), weight.data(),
      {.bias = bias.data(), .residual = residual.map(), .activation = Activation::kRelu},
      output.map(), workspace);
  cpu::conv_forward(k, s, algorithm, input.map(), weight.data(), {}, output.map(), workspace);
  cpu::activation_backward(k, Activation::kRelu, 0, outputs / s.out_channels, s.out_channels,
                           output.map(), residual.map(), output.map(), bias.data(), workspace);
  const GuardedArray input_bias(s.in_channels, guard);  // as a transposed convolution has one
  cpu::conv_backward_data(
      k, s, algorithm, output.map(), weight.data(),
      {.bias = input_bias.data(), .activation = Activation::kLeakyRelu, .leaky_slope = 0.1F},
      input.map(), workspace);
  for (const cpu::ConstMap others : {cpu::ConstMap(), cpu::ConstMap(other.map())}) {
    cpu::conv_backward_data(k, s, algorithm, output.map(), weight.data(), {.residual = others},
                            input.map(), workspace);
  }
  cpu::conv_backward_weight(k, s, algorithm, input.map(), output.map(), weight.data(), workspace);
}

ConvShape shape(std::int64_t in,
                std::int64_t out,
                std::int64_t height,
                std::int64_t width,
                std::int64_t kernel,
                std::int64_t stride) {
  return {.images = 2,
          .in_channels = in,
          .out_channels = out,
          .input = {height, width},
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {kernel / 2, kernel / 2}};
}

class ConvKernelsGuarded : public ::testing::TestWithParam<cpu::Storage> {};

TEST_P(ConvKernelsGuarded, TouchNothingOutsideTheirArrays) {
  for (const cpu::ConvKernels* build : {cpu::avx2_conv_kernels(), cpu::avx512_conv_kernels()}) {
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      for (const ConvShape& s :
           {shape(3, 5, 7, 6, 3, 2), shape(17, 33, 5, 9, 1, 1), shape(1, 1, 1, 1, 1, 1),
            shape(300, 2, 3, 3, 3, 1), shape(8, 40, 11, 10, 7, 2), shape(8, 33, 30, 27, 3, 1)}) {
        if (build != nullptr) {
          run_guarded(*build, s, ConvAlgorithm::kGemm, guard, GetParam());
        }
      }
      for (const ConvShape& s :
           {shape(16, 48, 7, 9, 3, 1), shape(32, 16, 1, 2, 3, 1), shape(16, 16, 131, 127, 3, 1)}) {
        if (build != nullptr) {
          run_guarded(*build, s, ConvAlgorithm::kWinograd, guard, GetParam());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Storages,
                         ConvKernelsGuarded,
                         ::testing::Values(cpu::Storage::kFloat,
                                           cpu::Storage::kHalf,
                                           cpu::Storage::kBFloat16));

TEST(ScaleGradientGuarded, TouchesNothingOutsideItsArrays) {
  for (const cpu::ConvKernels* build : {cpu::avx2_conv_kernels(), cpu::avx512_conv_kernels()}) {
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      for (const std::int64_t count : {1, 31, 65, 4608}) {
        const GuardedArray gradient(count, guard), weight(count, guard), scaled(count, guard);
        if (build != nullptr) {
          build->scale_gradient(gradient.data(), weight.data(), count, 2.0F, scaled.data());
        }
      }
    }
  }
}

}  // namespace
}  // namespace detforge
