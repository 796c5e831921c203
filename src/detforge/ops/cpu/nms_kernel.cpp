#include "detforge/ops/cpu/nms_kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <unordered_map>

#if DETFORGE_HAVE_AVX2
#include <immintrin.h>
#endif

namespace detforge::cpu {
namespace {

constexpr std::size_t kLanes = 8;

struct Candidate {
  float x1, y1, x2, y2, area;
};

/// Eight kept boxes, coordinate by coordinate. Unused lanes are the empty box at 0, which overlaps
/// nothing.
struct alignas(32) KeptBlock {
  std::array<float, kLanes> x1{}, y1{}, x2{}, y2{}, area{};
};

struct KeptList {
  std::vector<KeptBlock> blocks;
  std::size_t size = 0;

  void push_back(const Candidate& box) {
    const std::size_t lane = size++ % kLanes;
    if (lane == 0) {
      blocks.emplace_back();
    }
    KeptBlock& block = blocks.back();
    block.x1[lane] = box.x1;
    block.y1[lane] = box.y1;
    block.x2[lane] = box.x2;
    block.y2[lane] = box.y2;
    block.area[lane] = box.area;
  }
};

/// `iou > threshold` for a float iou and a double threshold, split into a cheap test without
/// division that passes everything the exact one passes (and a little more), and the exact one.
struct Threshold {
  float exact;  ///< largest float <= the threshold: iou > exact if and only if iou > threshold
  float
      cheap;  ///< smaller by more than the rounding of the division and of the product can make up

  explicit Threshold(double value)
      : exact(static_cast<float>(value)), cheap(static_cast<float>(value * (1.0 - 1e-6))) {
    if (static_cast<double>(exact) > value) {
      exact = std::nextafter(exact, -1.0F);
    }
  }
};

bool overlaps_portable(const KeptBlock& kept, const Candidate& box, const Threshold& threshold) {
  bool any = false;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const float width = std::min(kept.x2[lane], box.x2) - std::max(kept.x1[lane], box.x1);
    const float height = std::min(kept.y2[lane], box.y2) - std::max(kept.y1[lane], box.y1);
    const float inter = std::max(width, 0.0F) * std::max(height, 0.0F);
    const float uni = (kept.area[lane] + box.area) - inter;
    any |= inter >= threshold.cheap * uni && inter / uni > threshold.exact;
  }
  return any;
}

bool suppressed_portable(const KeptList& kept, const Candidate& box, const Threshold& threshold) {
  return std::any_of(kept.blocks.begin(), kept.blocks.end(), [&](const KeptBlock& block) {
    return overlaps_portable(block, box, threshold);
  });
}

#if DETFORGE_HAVE_AVX2
DETFORGE_TARGET_AVX2 bool suppressed_avx2(const KeptList& kept,
                                          const Candidate& box,
                                          const Threshold& threshold) {
  const __m256 zero = _mm256_setzero_ps();
  const __m256 x1 = _mm256_set1_ps(box.x1), y1 = _mm256_set1_ps(box.y1);
  const __m256 x2 = _mm256_set1_ps(box.x2), y2 = _mm256_set1_ps(box.y2);
  const __m256 area = _mm256_set1_ps(box.area);
  const __m256 cheap = _mm256_set1_ps(threshold.cheap), exact = _mm256_set1_ps(threshold.exact);
  for (const KeptBlock& block : kept.blocks) {
    const __m256 width = _mm256_sub_ps(_mm256_min_ps(_mm256_load_ps(block.x2.data()), x2),
                                       _mm256_max_ps(_mm256_load_ps(block.x1.data()), x1));
    const __m256 height = _mm256_sub_ps(_mm256_min_ps(_mm256_load_ps(block.y2.data()), y2),
                                        _mm256_max_ps(_mm256_load_ps(block.y1.data()), y1));
    const __m256 inter = _mm256_mul_ps(_mm256_max_ps(width, zero), _mm256_max_ps(height, zero));
    const __m256 uni = _mm256_sub_ps(_mm256_add_ps(_mm256_load_ps(block.area.data()), area), inter);
    const __m256 maybe = _mm256_cmp_ps(inter, _mm256_mul_ps(cheap, uni), _CMP_GE_OQ);
    if (_mm256_movemask_ps(maybe) == 0) {
      continue;
    }
    const __m256 above = _mm256_cmp_ps(_mm256_div_ps(inter, uni), exact, _CMP_GT_OQ);
    if (_mm256_movemask_ps(above) != 0) {
      return true;
    }
  }
  return false;
}
#endif

bool suppressed(const KeptList& kept,
                const Candidate& box,
                const Threshold& threshold,
                [[maybe_unused]] KernelBuild build) {
#if DETFORGE_HAVE_AVX2
  if (build == KernelBuild::kAvx2) {
    return suppressed_avx2(kept, box, threshold);
  }
#endif
  return suppressed_portable(kept, box, threshold);
}

/// Indices by falling score, ties in input order. The score's bits are turned into an integer that
/// falls where the score rises and that sits above the index, so that one integer sort is a stable
/// sort.
std::vector<std::uint64_t> order_by_score(std::span<const float> scores) {
  std::vector<std::uint64_t> keys(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(scores[i] + 0.0F);  // -0 becomes 0
    const std::uint32_t rising = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    keys[i] = static_cast<std::uint64_t>(~rising) << 32 | static_cast<std::uint32_t>(i);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

/// Numbers the groups 0, 1, ... in the order of their first box.
std::vector<std::size_t> dense_groups(std::span<const std::int64_t> groups, std::size_t* count) {
  std::unordered_map<std::int64_t, std::size_t> numbers;
  std::vector<std::size_t> dense(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    dense[i] = numbers.try_emplace(groups[i], numbers.size()).first->second;
  }
  *count = numbers.size();
  return dense;
}

}  // namespace

std::vector<std::int64_t> nms(const NmsInput& input,
                              double iou_threshold,
                              std::int64_t max_keep,
                              KernelBuild build) {
  const Threshold threshold(iou_threshold);
  const std::size_t limit = max_keep < 0 ? input.scores.size() : static_cast<std::size_t>(max_keep);
  std::size_t group_count = 1;
  const std::vector<std::size_t> groups = dense_groups(input.groups, &group_count);
  std::vector<KeptList> kept(std::max<std::size_t>(group_count, 1));
  std::vector<std::int64_t> result;
  for (const std::uint64_t key : order_by_score(input.scores)) {
    if (result.size() >= limit) {
      break;
    }
    const std::size_t index = key & std::numeric_limits<std::uint32_t>::max();
    const float* b = input.boxes + index * 4;
    const Candidate box{b[0], b[1], b[2], b[3], (b[2] - b[0]) * (b[3] - b[1])};
    KeptList& list = kept[groups.empty() ? 0 : groups[index]];
    if (!suppressed(list, box, threshold, build)) {
      list.push_back(box);
      result.push_back(static_cast<std::int64_t>(index));
    }
  }
  return result;
}

}  // namespace detforge::cpu
