#include "detforge/data/flip.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace detforge {
namespace {

/// Writes the pixels `from` to `width` of `in` backwards to the front of `out`.
void mirror_row(const std::uint8_t* in, std::uint8_t* out, std::int64_t from, std::int64_t width) {
  out += 3 * (width - from);
  for (std::int64_t x = from; x < width; ++x) {
    out -= 3;
    out[0] = in[3 * x];
    out[1] = in[3 * x + 1];
    out[2] = in[3 * x + 2];
  }
}

#if defined(__x86_64__)

/// Five pixels at a time from the front of `in` to the back of `out`; returns how many are done.
/// Each store also writes one byte before its pixels, which the next store or mirror_row() writes
/// again.
__attribute__((target("ssse3"))) std::int64_t mirror_row_ssse3(const std::uint8_t* in,
                                                               std::uint8_t* out,
                                                               std::int64_t width) {
  const __m128i order = _mm_setr_epi8(-1, 12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2);
  std::int64_t x = 0;
  for (; x + 6 <= width; x += 5) {
    const __m128i pixels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 3 * x));
    std::uint8_t* target = out + 3 * (width - x) - 16;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm_shuffle_epi8(pixels, order));
  }
  return x;
}

#endif

void mirror_whole_row(const std::uint8_t* in, std::uint8_t* out, std::int64_t width) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  static const bool ssse3 = __builtin_cpu_supports("ssse3") != 0;
  if (ssse3) {
    done = mirror_row_ssse3(in, out, width);
  }
#endif
  mirror_row(in, out, done, width);
}

}  // namespace

void flip_horizontal_(Image& image) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.width * 3));
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::memcpy(row.data(), image.row(y), row.size());
    mirror_whole_row(row.data(), image.row(y), image.width);
  }
}

void flip_vertical_(Image& image) {
  const std::int64_t bytes = image.width * 3;
  for (std::int64_t y = 0; y < image.height / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y) + bytes, image.row(image.height - 1 - y));
  }
}

}  // namespace detforge
