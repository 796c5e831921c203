#include "detforge/core/fma_peak.h"

#include <algorithm>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "detforge/core/timer.h"

namespace detforge {
namespace {

constexpr int kIterations = 20000;
constexpr int kChains = 12;  // enough to hide 4 to 5 cycles of latency on two FMA units

// Each returns the FLOPs of one call; `sink` keeps the result alive.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) double run_avx512(float* sink) {
  __m512 sum[kChains];
  const __m512 a = _mm512_set1_ps(0.999999f), b = _mm512_set1_ps(1e-6f);
  for (auto& s : sum) {
    s = _mm512_set1_ps(1.0f);
  }
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm512_fmadd_ps(sum[c], a, b);
    }
  }
  for (int c = 1; c < kChains; ++c) {
    sum[0] = _mm512_add_ps(sum[0], sum[c]);
  }
  *sink += _mm512_reduce_add_ps(sum[0]);
  return 2.0 * 16 * kChains * kIterations;
}

__attribute__((target("avx2,fma"))) double run_avx2(float* sink) {
  __m256 sum[kChains];
  const __m256 a = _mm256_set1_ps(0.999999f), b = _mm256_set1_ps(1e-6f);
  for (auto& s : sum) {
    s = _mm256_set1_ps(1.0f);
  }
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm256_fmadd_ps(sum[c], a, b);
    }
  }
  for (int c = 1; c < kChains; ++c) {
    sum[0] = _mm256_add_ps(sum[0], sum[c]);
  }
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, sum[0]);
  *sink += lanes[0];
  return 2.0 * 8 * kChains * kIterations;
}
#endif

double run_baseline(float* sink) {
  float sum[kChains * 4];
  std::fill(std::begin(sum), std::end(sum), 1.0f);
  for (int i = 0; i < kIterations; ++i) {
    for (float& s : sum) {
      s = s * 0.999999f + 1e-6f;
    }
  }
  for (const float s : sum) {
    *sink += s;
  }
  return 2.0 * kChains * 4 * kIterations;
}

using Kernel = double (*)(float*);

struct Choice {
  Kernel kernel;
  const char* name;
};

Choice choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {run_avx512, "AVX-512"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_avx2, "AVX2"};
#endif
  return {run_baseline, "baseline"};
}

double one_repeat(Kernel kernel, int threads, double seconds) {
  std::vector<double> rate(static_cast<std::size_t>(threads), 0.0);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&rate, kernel, seconds, t] {
      float sink = 0;
      double flops = 0;
      const Timer timer;
      while (timer.elapsed_s() < seconds) {
        flops += kernel(&sink);
      }
      // Adding a value derived from the sink keeps the compiler from dropping the loop.
      rate[static_cast<std::size_t>(t)] =
          flops / timer.elapsed_s() + (sink == 12345.0f ? 1.0 : 0.0);
    });
  }
  for (auto& worker : workers) {
    worker.join();
  }
  double sum = 0;
  for (const double r : rate) {
    sum += r;
  }
  return sum / 1e9;
}

}  // namespace

double measure_fma_peak_gflops(int threads, double seconds) {
  constexpr int kRepeats = 3;
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    best = std::max(best, one_repeat(choose().kernel, threads, seconds / kRepeats));
  }
  return best;
}

const char* fma_peak_instruction_set() {
  return choose().name;
}

}  // namespace detforge
