#include "detforge/ops/cpu/iou_kernel.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace detforge::cpu {
namespace {

constexpr std::size_t kBlock = 512;  ///< boxes of b held coordinate by coordinate in L1
constexpr std::size_t kRows = 256;   ///< boxes of a per unit of parallel work

struct alignas(64) BoxBlock {
  std::array<float, kBlock> x1, y1, x2, y2, area;
};

DETFORGE_KERNEL_INLINE void iou_row(const float* a,
                                    const BoxBlock& b,
                                    std::size_t count,
                                    float* result) {
  const float x1 = a[0], y1 = a[1], x2 = a[2], y2 = a[3];
  const float area = (x2 - x1) * (y2 - y1);
  for (std::size_t j = 0; j < count; ++j) {
    const float width = std::min(x2, b.x2[j]) - std::max(x1, b.x1[j]);
    const float height = std::min(y2, b.y2[j]) - std::max(y1, b.y1[j]);
    const float inter = std::max(width, 0.0F) * std::max(height, 0.0F);
    const float iou = inter / ((area + b.area[j]) - inter);
    result[j] =
        iou > 0.0F ? iou : 0.0F;  // also for 0 / 0, and for NaN coordinates, whose area is NaN
  }
}

void iou_row_portable(const float* a, const BoxBlock& b, std::size_t count, float* result) {
  iou_row(a, b, count, result);
}

DETFORGE_TARGET_AVX2 void iou_row_avx2(const float* a,
                                       const BoxBlock& b,
                                       std::size_t count,
                                       float* result) {
  iou_row(a, b, count, result);
}

void load_block(const float* boxes, std::size_t count, BoxBlock& block) {
  for (std::size_t j = 0; j < count; ++j, boxes += 4) {
    block.x1[j] = boxes[0];
    block.y1[j] = boxes[1];
    block.x2[j] = boxes[2];
    block.y2[j] = boxes[3];
    block.area[j] = (boxes[2] - boxes[0]) * (boxes[3] - boxes[1]);
  }
}

}  // namespace

void pairwise_iou(const float* a,
                  std::size_t a_count,
                  const float* b,
                  std::size_t b_count,
                  float* result,
                  KernelBuild build) {
  const auto row = build == KernelBuild::kAvx2 ? iou_row_avx2 : iou_row_portable;
  const auto row_blocks = static_cast<std::int64_t>((a_count + kRows - 1) / kRows);
  const auto column_blocks = static_cast<std::int64_t>((b_count + kBlock - 1) / kBlock);
#pragma omp parallel for collapse(2) schedule(static) if (a_count * b_count > 65536)
  for (std::int64_t r = 0; r < row_blocks; ++r) {
    for (std::int64_t c = 0; c < column_blocks; ++c) {
      const std::size_t row_end = std::min(a_count, static_cast<std::size_t>(r + 1) * kRows);
      const std::size_t first = static_cast<std::size_t>(c) * kBlock;
      const std::size_t count = std::min(kBlock, b_count - first);
      BoxBlock block;
      load_block(b + first * 4, count, block);
      for (std::size_t i = static_cast<std::size_t>(r) * kRows; i < row_end; ++i) {
        row(a + i * 4, block, count, result + i * b_count + first);
      }
    }
  }
}

}  // namespace detforge::cpu
