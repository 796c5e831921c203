#include "detforge/ops/cpu/conv_kernel_table.h"

namespace detforge::cpu {

extern const ConvKernels kAvx2ConvKernels;
constinit const ConvKernels kAvx2ConvKernels = make_conv_kernels("AVX2");

}  // namespace detforge::cpu
