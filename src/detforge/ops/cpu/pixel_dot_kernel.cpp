#include "detforge/ops/cpu/pixel_dot_kernel.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "detforge/ops/cpu/float_vector.h"
#include "detforge/ops/cpu/map_values.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kSums = 32;  ///< of a dot product, whatever the vectors' length: same bits

template <int kLanes>
DETFORGE_KERNEL_INLINE float dot(const float* x, const float* y, std::int64_t n) {
  using Vector = typename FloatVector<kLanes>::Type;
  using InMemory = typename FloatVector<kLanes>::InMemory;
  constexpr int kVectors = kSums / kLanes;
  Vector vectors[kVectors] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    const InMemory* a = reinterpret_cast<const InMemory*>(x + i);
    const InMemory* b = reinterpret_cast<const InMemory*>(y + i);
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] += a[v] * b[v];
    }
  }
  float sums[kSums];
  for (int v = 0; v < kVectors; ++v) {
    *reinterpret_cast<InMemory*>(sums + v * kLanes) = vectors[v];
  }
  for (; i < n; ++i) {
    sums[i % kSums] += x[i] * y[i];
  }
  for (std::int64_t half = kSums / 2; half > 0; half /= 2) {
    for (std::int64_t s = 0; s < half; ++s) {
      sums[s] += sums[s + half];
    }
  }
  return sums[0];
}

/// One image.
template <int kLanes>
DETFORGE_KERNEL_INLINE void forward(const PixelDotShape& s,
                                    const float* map,
                                    const float* vector,
                                    float* dots) {
  for (std::int64_t pixel = 0; pixel < s.pixels; ++pixel) {
    dots[pixel] = dot<kLanes>(map + pixel * s.channels, vector, s.channels);
  }
}

/// One image.
DETFORGE_KERNEL_INLINE void backward(const PixelDotShape& s,
                                     const float* map,
                                     const float* __restrict vector,
                                     const float* grad_dots,
                                     float* grad_map,
                                     float* __restrict grad_vector) {
  std::fill_n(grad_vector, s.channels, 0.0F);
  for (std::int64_t pixel = 0; pixel < s.pixels; ++pixel) {
    const float grad = grad_dots[pixel];
    const float* __restrict values = map + pixel * s.channels;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      grad_vector[c] += grad * values[c];
    }
    if (grad_map != nullptr) {
      float* __restrict to = grad_map + pixel * s.channels;
      for (std::int64_t c = 0; c < s.channels; ++c) {
        to[c] = grad * vector[c];
      }
    }
  }
}

void forward_portable(const PixelDotShape& s, const float* map, const float* vector, float* dots) {
  forward<4>(s, map, vector, dots);
}
DETFORGE_TARGET_AVX2 void forward_avx2(const PixelDotShape& s,
                                       const float* map,
                                       const float* vector,
                                       float* dots) {
  forward<8>(s, map, vector, dots);
}

void backward_portable(const PixelDotShape& s,
                       const float* map,
                       const float* vector,
                       const float* grad_dots,
                       float* grad_map,
                       float* grad_vector) {
  backward(s, map, vector, grad_dots, grad_map, grad_vector);
}
DETFORGE_TARGET_AVX2 void backward_avx2(const PixelDotShape& s,
                                        const float* map,
                                        const float* vector,
                                        const float* grad_dots,
                                        float* grad_map,
                                        float* grad_vector) {
  backward(s, map, vector, grad_dots, grad_map, grad_vector);
}

/// Floats that one thread needs for an image of a map that is not stored as floats.
std::size_t image_room(const PixelDotShape& s, const ConstMap& map) {
  return map.storage() == Storage::kFloat ? 0 : static_cast<std::size_t>(s.pixels * s.channels);
}

}  // namespace

void pixel_dot_forward(const PixelDotShape& s,
                       const ConstMap& map,
                       const float* vectors,
                       float* dots,
                       KernelBuild build) {
  const auto image = build == KernelBuild::kPortable ? forward_portable : forward_avx2;
  const std::int64_t size = s.pixels * s.channels;
#pragma omp parallel
  {
    std::vector<float> room(image_room(s, map));
#pragma omp for schedule(static)
    for (std::int64_t n = 0; n < s.images; ++n) {
      image(s, read_values(map + n * size, size, room.data()), vectors + n * s.channels,
            dots + n * s.pixels);
    }
  }
}

void pixel_dot_backward(const PixelDotShape& s,
                        const ConstMap& map,
                        const float* vectors,
                        const float* grad_dots,
                        const Map& grad_map,
                        float* grad_vectors,
                        KernelBuild build) {
  const auto image = build == KernelBuild::kPortable ? backward_portable : backward_avx2;
  const std::int64_t size = s.pixels * s.channels;
#pragma omp parallel
  {
    std::vector<float> room(image_room(s, map)), grads(image_room(s, map));
#pragma omp for schedule(static)
    for (std::int64_t n = 0; n < s.images; ++n) {
      float* to = grad_map.is_null() ? nullptr : place_of(grad_map + n * size, grads.data());
      image(s, read_values(map + n * size, size, room.data()), vectors + n * s.channels,
            grad_dots + n * s.pixels, to, grad_vectors + n * s.channels);
      if (to != nullptr) {
        finish_values(to, size, grad_map + n * size);
      }
    }
  }
}

}  // namespace detforge::cpu
