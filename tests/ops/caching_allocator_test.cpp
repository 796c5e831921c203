// core/caching_allocator with LibTorch's own tensors; here, because the tests of core do not link
// LibTorch.
#include "detforge/core/caching_allocator.h"

#include <thread>
#include <vector>

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/tensor.h"

namespace detforge {
namespace {

constexpr std::int64_t kMib = 1 << 20;

Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::kByte);
}

TEST(CachingAllocator, LargeTensorsComeFromTheHeapAndSmallOnesDoNot) {
  const Tensor earlier = at::ones({2 * kMib});
  install_caching_allocator();
  install_caching_allocator();  // changes nothing
  const std::int64_t before = tensor_memory().live;
  const auto threshold = static_cast<std::int64_t>(kSmallestCachedBlock);
  {
    const Tensor large = bytes(threshold), small = bytes(threshold - 1), empty = bytes(0);
    EXPECT_EQ(tensor_memory().live, before + threshold);
    EXPECT_EQ(empty.data_ptr(), nullptr);
    for (const Tensor& tensor : {large, small}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U);
    }
  }
  EXPECT_EQ(tensor_memory().live, before);
  EXPECT_EQ(earlier.sum().item<float>(), 2.0F * static_cast<float>(kMib));
}

TEST(CachingAllocator, AFreedTensorsMemoryServesTheNext) {
  install_caching_allocator();
  const void* const first = bytes(30 * kMib).data_ptr();
  EXPECT_EQ(bytes(30 * kMib).data_ptr(), first);
}

TEST(CachingAllocator, RawAllocationAsOneDnnUsesIt) {
  install_caching_allocator();
  c10::Allocator* const allocator = c10::GetAllocator(c10::DeviceType::CPU);
  for (const std::size_t size : {std::size_t{100}, kSmallestCachedBlock}) {
    void* const block = allocator->raw_allocate(size);
    ASSERT_NE(block, nullptr);
    allocator->raw_deallocate(block);
  }
}

TEST(CachingAllocator, ReleaseKeepsTensorsThatAreInUse) {
  install_caching_allocator();
  const Tensor kept = at::full({4 * kMib}, 3, at::kFloat);
  bytes(50 * kMib).fill_(1);
  EXPECT_GE(tensor_memory().cached, 49 * kMib);
  EXPECT_GE(release_cached_memory(), 48 * kMib);
  EXPECT_LT(tensor_memory().cached, 8 * kMib);
  EXPECT_TRUE(kept.eq(3).all().item<bool>());
}

TEST(CachingAllocator, AConvolutionAndItsGradientsAreThoseOfTheSystemsAllocator) {
  at::manual_seed(3);
  const auto input = at::randn({2, 16, 96, 128}), weight = at::randn({32, 16, 3, 3});
  const auto gradients = [&] {
    const Tensor x = input.clone().requires_grad_(), w = weight.clone().requires_grad_();
    at::conv2d(x, w, {}, 1, 1).relu().square().sum().backward();
    return std::vector<Tensor>{x.grad(), w.grad()};
  };
  install_caching_allocator();
  c10::Allocator* const caching = c10::GetCPUAllocator();
  const std::int64_t before = tensor_memory().fetched;
  const auto actual = gradients();
  EXPECT_GT(tensor_memory().live, 0);
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
  const std::int64_t fetched = tensor_memory().fetched;
  const auto expected = gradients();
  EXPECT_EQ(tensor_memory().fetched, fetched);  // the heap has no part in these
  EXPECT_GE(fetched, before);
  c10::SetCPUAllocator(caching, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i], expected[i]));
  }
}

TEST(CachingAllocator, ThreadsMakeAndDropTensors) {
  install_caching_allocator();
  const std::int64_t before = tensor_memory().live;
  std::vector<std::thread> threads;
  for (int seed = 0; seed < 4; ++seed) {
    threads.emplace_back([seed] {
      for (int i = 0; i < 200; ++i) {
        const Tensor tensor = at::full({(1 + (seed + i) % 7) * kMib}, seed, at::kByte);
        ASSERT_TRUE(tensor.eq(seed).all().item<bool>());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(tensor_memory().live, before);
}

}  // namespace
}  // namespace detforge
