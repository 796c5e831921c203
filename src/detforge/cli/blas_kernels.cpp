#include "detforge/cli/blas_kernels.h"

#include <cstdlib>
#include <dlfcn.h>
#include <string_view>

namespace detforge {
namespace {

#if defined(__x86_64__)

/// OpenBLAS's name for the kernels that use the most of this CPU; nullptr if Prescott's are right.
const char* fitting_kernels() {
  if (__builtin_cpu_supports("avx512bf16") != 0) {
    return "Cooperlake";
  }
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0) {
    return "SkylakeX";
  }
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 ? "Haswell"
                                                                                   : nullptr;
}

#else

const char* fitting_kernels() {
  return nullptr;
}

#endif

}  // namespace

void choose_blas_kernels() {
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  const char* fitting = fitting_kernels();
  if (fitting == nullptr || std::getenv(kVariable) != nullptr) {
    return;
  }
  void* openblas = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (openblas == nullptr) {
    return;
  }
  using CoreName = char* (*)();
  const auto core_name = reinterpret_cast<CoreName>(::dlsym(openblas, "openblas_get_corename"));
  if (core_name != nullptr && std::string_view(core_name()) == "Prescott") {
    ::setenv(kVariable, fitting, /*overwrite=*/0);
  }
}

}  // namespace detforge
