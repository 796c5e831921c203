#pragma once

namespace detforge {

/// The machine's f32 multiply-add peak in GFLOP/s (2 per multiply-add) on `threads` threads,
/// measured for about `seconds`: independent FMA chains in registers of the widest vectors the CPU
/// has (AVX-512, AVX2+FMA, or plain code). The best of several repeats. The number that every
/// "percent of peak" refers to.
double measure_fma_peak_gflops(int threads, double seconds = 0.3);

/// "AVX-512", "AVX2" or "baseline": what the measurement used.
const char* fma_peak_instruction_set();

}  // namespace detforge
