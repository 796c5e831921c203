#pragma once

/// Kernels come in two builds of one source: the baseline of the architecture, and AVX2 chosen at
/// run time. Neither contracts a * b + c into one rounding (-ffp-contract=off), so both give the
/// same bits.
#if defined(__x86_64__) && defined(__GNUC__)
#define DETFORGE_TARGET_AVX2 __attribute__((target("avx2")))
#define DETFORGE_HAVE_AVX2 1
#else
#define DETFORGE_TARGET_AVX2
#define DETFORGE_HAVE_AVX2 0
#endif

/// Code that both builds share must be inlined into each, to be compiled for its instruction set.
#define DETFORGE_KERNEL_INLINE inline __attribute__((always_inline))

namespace detforge::cpu {

/// Which build of a kernel runs. kPortable is for tests and for processors without AVX2.
enum class KernelBuild { kPortable, kAvx2 };

/// The fastest build that this processor can run.
inline KernelBuild best_kernel_build() {
#if DETFORGE_HAVE_AVX2
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  return avx2 ? KernelBuild::kAvx2 : KernelBuild::kPortable;
#else
  return KernelBuild::kPortable;
#endif
}

}  // namespace detforge::cpu
