#include "detforge/data/normalise.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace detforge {
namespace {

/// Mean and std by channel.
struct Scaling {
  const std::array<float, 3>& mean;
  const std::array<float, 3>& std;
};

/// The three planes at the start of one row.
using PlaneRows = std::array<float*, 3>;

/// Pixels `from` to `width` of one row.
void scale_row(const std::uint8_t* bgr,
               const PlaneRows& rows,
               std::int64_t from,
               std::int64_t width,
               const Scaling& scaling) {
  for (std::int64_t x = from; x < width; ++x) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const auto value = static_cast<float>(bgr[3 * x + static_cast<std::int64_t>(channel)]);
      rows[channel][x] = (value - scaling.mean[channel]) / scaling.std[channel];
    }
  }
}

#if defined(__x86_64__)

/// Eight pixels at a time; returns how many pixels are done. Division, not multiplication by the
/// reciprocal: the result must equal torch's to the last bit.
__attribute__((target("avx2"))) std::int64_t scale_row_avx2(const std::uint8_t* bgr,
                                                            const PlaneRows& rows,
                                                            std::int64_t width,
                                                            const Scaling& scaling) {
  // Four pixels (12 bytes) lie in each half; channel c's bytes are 3 * i + c, widened to 32 bits.
  const __m128i blue = _mm_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1);
  std::int64_t x = 0;
  for (; 3 * x + 28 <= 3 * width; x += 8) {  // the second load reads bytes 12 to 27
    const auto* from = reinterpret_cast<const __m128i*>(bgr + 3 * x);
    const auto* from2 = reinterpret_cast<const __m128i*>(bgr + 3 * x + 12);
    const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(from)),
                                                  _mm_loadu_si128(from2), 1);
    __m256i order = _mm256_broadcastsi128_si256(blue);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const __m256 values = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, order));
      const __m256 centred = _mm256_sub_ps(values, _mm256_set1_ps(scaling.mean[channel]));
      _mm256_storeu_ps(rows[channel] + x,
                       _mm256_div_ps(centred, _mm256_set1_ps(scaling.std[channel])));
      order = _mm256_add_epi32(order, _mm256_set1_epi32(1));  // the next channel's bytes
    }
  }
  return x;
}

#endif

/// The fastest code that this processor runs.
void scale_whole_row(const std::uint8_t* bgr,
                     const PlaneRows& rows,
                     std::int64_t width,
                     const Scaling& scaling) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) {
    done = scale_row_avx2(bgr, rows, width, scaling);
  }
#endif
  scale_row(bgr, rows, done, width, scaling);
}

}  // namespace

void normalise_into(const Image& image,
                    float* chw,
                    std::int64_t padded_h,
                    std::int64_t padded_w,
                    const std::array<float, 3>& mean,
                    const std::array<float, 3>& std) {
  DETFORGE_CHECK(image.height <= padded_h && image.width <= padded_w,
                 fmt::format("image of {}x{} does not fit into a batch of {}x{}", image.height,
                             image.width, padded_h, padded_w),
                 "this is a bug: the batch size must be the largest image's");
  DETFORGE_CHECK(std[0] != 0 && std[1] != 0 && std[2] != 0, "a value of PIXEL_STD is 0",
                 "use 1 to leave a channel unscaled");
  const std::int64_t plane = padded_h * padded_w;
  for (std::int64_t y = 0; y < image.height; ++y) {
    float* row = chw + y * padded_w;
    const PlaneRows rows = {row, row + plane, row + 2 * plane};
    scale_whole_row(image.row(y), rows, image.width, {mean, std});
    for (float* padded : rows) {
      std::fill(padded + image.width, padded + padded_w, 0.0F);
    }
  }
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    std::fill(chw + channel * plane + image.height * padded_w, chw + (channel + 1) * plane, 0.0F);
  }
}

}  // namespace detforge
