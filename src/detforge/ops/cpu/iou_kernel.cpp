#include "detforge/ops/cpu/iou_kernel.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

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

/// The IoUs of one box with a block, and the best so far of each box of the block.
struct BestOfBlock {
  std::array<float, kBlock> row;
  std::array<float, kBlock> iou;
  std::array<std::int32_t, kBlock> index;
};

/// Raises the best by box number `i`, whose row is computed; returns the row's highest.
DETFORGE_KERNEL_INLINE float raise_best(std::int32_t i, BestOfBlock& best) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> highest{};
  for (std::size_t j = 0; j < kBlock; j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float iou = best.row[j + lane];
      const bool is_better = iou > best.iou[j + lane];
      best.index[j + lane] = is_better ? i : best.index[j + lane];
      best.iou[j + lane] = is_better ? iou : best.iou[j + lane];
      highest[lane] = iou > highest[lane] ? iou : highest[lane];
    }
  }
  return *std::max_element(highest.begin(), highest.end());
}

/// `highest` of each box of a. The best IoU starts at 0 of box 0, which is also what a box that
/// overlaps nothing has.
DETFORGE_KERNEL_INLINE void best_of_block(
    const float* a, std::size_t a_count, const BoxBlock& block, BestOfBlock& best, float* highest) {
  best.iou.fill(0.0F);
  best.index.fill(0);
  for (std::size_t i = 0; i < a_count; ++i) {
    iou_row(a + i * 4, block, kBlock, best.row.data());
    highest[i] = raise_best(static_cast<std::int32_t>(i), best);
  }
}

void best_of_block_portable(
    const float* a, std::size_t count, const BoxBlock& block, BestOfBlock& best, float* highest) {
  best_of_block(a, count, block, best, highest);
}

DETFORGE_TARGET_AVX2 void best_of_block_avx2(
    const float* a, std::size_t count, const BoxBlock& block, BestOfBlock& best, float* highest) {
  best_of_block(a, count, block, best, highest);
}

using RowFunction = void (*)(const float*, const BoxBlock&, std::size_t, float*);

/// Marks the boxes of a block whose IoU with the box `a` is `highest`.
void mark_highest(RowFunction row,
                  const float* a,
                  float highest,
                  const float* b,
                  std::size_t count,
                  std::uint8_t* is_highest) {
  BoxBlock block{};
  std::array<float, kBlock> iou;
  load_block(b, count, block);
  row(a, block, count, iou.data());
  for (std::size_t j = 0; j < count; ++j) {
    is_highest[j] |= static_cast<std::uint8_t>(iou[j] == highest);
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

void best_iou(const float* a,
              std::size_t a_count,
              const float* b,
              std::size_t b_count,
              const BestIouResult& result,
              KernelBuild build) {
  const bool portable = build == KernelBuild::kPortable;
  const auto best_of = portable ? best_of_block_portable : best_of_block_avx2;
  const auto row = portable ? iou_row_portable : iou_row_avx2;
  const std::size_t blocks = (b_count + kBlock - 1) / kBlock;
  std::vector<float> highest(blocks * a_count);  // of each box of a in each block
#pragma omp parallel for schedule(static)
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = block * kBlock, count = std::min(kBlock, b_count - first);
    BoxBlock boxes{};  // the last may not be full: empty boxes overlap nothing
    load_block(b + first * 4, count, boxes);
    BestOfBlock best;
    best_of(a, a_count, boxes, best, highest.data() + block * a_count);
    std::copy_n(best.iou.begin(), count, result.iou + first);
    std::copy_n(best.index.begin(), count, result.index + first);
  }
  std::fill_n(result.highest, a_count, 0.0F);
  for (std::size_t i = 0; i < highest.size(); ++i) {
    float& of_all = result.highest[i % a_count];
    of_all = std::max(of_all, highest[i]);
  }
  // The few rows that hold a highest value are computed a second time rather than kept.
#pragma omp parallel for schedule(dynamic, 16)
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = block * kBlock, count = std::min(kBlock, b_count - first);
    std::fill_n(result.is_highest + first, count, std::uint8_t{0});
    for (std::size_t i = 0; i < a_count; ++i) {
      if (highest[block * a_count + i] == result.highest[i] && result.highest[i] > 0.0F) {
        mark_highest(row, a + i * 4, result.highest[i], b + first * 4, count,
                     result.is_highest + first);
      }
    }
  }
}

}  // namespace detforge::cpu
