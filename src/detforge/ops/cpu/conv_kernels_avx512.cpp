#include "detforge/ops/cpu/conv_kernel_table.h"

namespace detforge::cpu {

extern const ConvKernels kAvx512ConvKernels;
constinit const ConvKernels kAvx512ConvKernels = make_conv_kernels("AVX-512");

}  // namespace detforge::cpu
