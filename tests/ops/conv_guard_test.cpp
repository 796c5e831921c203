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

  GuardedArray(std::int64_t floats, Guard guard) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
    const std::size_t body = (bytes + page - 1) / page * page;
    size_ = body + 2 * page;
    map_ = static_cast<char*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(map_, MAP_FAILED);
    EXPECT_EQ(::mprotect(map_, page, PROT_NONE), 0);
    EXPECT_EQ(::mprotect(map_ + page + body, page, PROT_NONE), 0);
    char* first = guard == Guard::kBehind ? map_ + page + body - bytes : map_ + page;
    data_ = reinterpret_cast<float*>(first);
    for (std::int64_t i = 0; i < floats; ++i) {
      data_[i] = static_cast<float>(i % 7) - 3;
    }
  }
  ~GuardedArray() { ::munmap(map_, size_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  float* data() const { return data_; }

 private:
  std::size_t size_ = 0;
  char* map_ = nullptr;
  float* data_ = nullptr;
};

using Guard = GuardedArray::Guard;

/// Every pass with every array guarded, scratch memory too (behind it, to the rounding of 64
/// bytes).
void run_guarded(const cpu::ConvKernels& k,
                 const ConvShape& s,
                 ConvAlgorithm algorithm,
                 Guard guard) {
  std::vector<std::unique_ptr<GuardedArray>> scratch;
  const cpu::Workspace workspace = [&](std::int64_t floats) {
    scratch.push_back(std::make_unique<GuardedArray>((floats + 15) / 16 * 16, Guard::kBehind));
    return scratch.back()->data();
  };
  const std::int64_t outputs = s.images * s.output(0) * s.output(1) * s.out_channels;
  const GuardedArray input(s.images * s.input[0] * s.input[1] * s.in_channels, guard);
  const GuardedArray weight(s.out_channels * s.in_channels * s.kernel[0] * s.kernel[1], guard);
  const GuardedArray bias(s.out_channels, guard), residual(outputs, guard), output(outputs, guard);
  cpu::conv_forward(
      k, s, algorithm, input.data(), weight.data(),
      {.bias = bias.data(), .residual = residual.data(), .activation = Activation::kRelu},
      output.data(), workspace);
  cpu::conv_forward(k, s, algorithm, input.data(), weight.data(), {}, output.data(), workspace);
  cpu::activation_backward(k, Activation::kRelu, 0, outputs / s.out_channels, s.out_channels,
                           output.data(), residual.data(), output.data(), bias.data(), workspace);
  const GuardedArray input_bias(s.in_channels, guard);  // as a transposed convolution has one
  cpu::conv_backward_data(
      k, s, algorithm, output.data(), weight.data(),
      {.bias = input_bias.data(), .activation = Activation::kLeakyRelu, .leaky_slope = 0.1F},
      input.data(), workspace);
  const GuardedArray other(s.images * s.input[0] * s.input[1] * s.in_channels, guard);
  for (const float* others :
       {static_cast<const float*>(nullptr), static_cast<const float*>(other.data())}) {
    cpu::conv_backward_data(k, s, algorithm, output.data(), weight.data(), {.residual = others},
                            input.data(), workspace);
  }
  cpu::conv_backward_weight(k, s, algorithm, input.data(), output.data(), weight.data(), workspace);
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

TEST(ConvKernelsGuarded, TouchNothingOutsideTheirArrays) {
  for (const cpu::ConvKernels* build : {cpu::avx2_conv_kernels(), cpu::avx512_conv_kernels()}) {
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      for (const ConvShape& s :
           {shape(3, 5, 7, 6, 3, 2), shape(17, 33, 5, 9, 1, 1), shape(1, 1, 1, 1, 1, 1),
            shape(300, 2, 3, 3, 3, 1), shape(8, 40, 11, 10, 7, 2), shape(8, 33, 30, 27, 3, 1)}) {
        if (build != nullptr) {
          run_guarded(*build, s, ConvAlgorithm::kGemm, guard);
        }
      }
      for (const ConvShape& s :
           {shape(16, 48, 7, 9, 3, 1), shape(32, 16, 1, 2, 3, 1), shape(16, 16, 131, 127, 3, 1)}) {
        if (build != nullptr) {
          run_guarded(*build, s, ConvAlgorithm::kWinograd, guard);
        }
      }
    }
  }
}

TEST(ConvKernelsGuarded, ScaleGradientTouchesNothingOutsideItsArrays) {
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
