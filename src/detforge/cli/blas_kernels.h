#pragma once

namespace detforge {

/// Puts OPENBLAS_CORETYPE into the environment of the program to be started if OpenBLAS does not
/// know this CPU: it then falls back to kernels of 2004 (Prescott, SSE3), 3 to 6 times slower than
/// those for the instructions that the CPU has. A setting of the user wins, as does a choice of
/// OpenBLAS that is right. Loads OpenBLAS to ask it (2 ms); does nothing where there is none.
void choose_blas_kernels();

}  // namespace detforge
