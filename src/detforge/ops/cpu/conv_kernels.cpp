#include "detforge/ops/cpu/conv_kernels.h"

namespace detforge::cpu {

#if defined(__x86_64__)

extern const ConvKernels kAvx2ConvKernels, kAvx512ConvKernels;

const ConvKernels* avx2_conv_kernels() {
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  return runs ? &kAvx2ConvKernels : nullptr;
}

const ConvKernels* avx512_conv_kernels() {
  return __builtin_cpu_supports("avx512f") ? &kAvx512ConvKernels : nullptr;
}

#else

const ConvKernels* avx2_conv_kernels() {
  return nullptr;
}

const ConvKernels* avx512_conv_kernels() {
  return nullptr;
}

#endif

const ConvKernels* conv_kernels() {
  static const ConvKernels* const best =
      avx512_conv_kernels() != nullptr ? avx512_conv_kernels() : avx2_conv_kernels();
  return best;
}

}  // namespace detforge::cpu
