#pragma once

#include <string>

namespace detforge {

/// Who computes convolutions and linear layers: DetForge's own kernels, or at::conv2d and
/// at::linear, which are the reference.
enum class KernelBackend { kOwn, kAten };

/// "own" or "aten".
const char* kernel_backend_name(KernelBackend backend);

/// The backend called `name`. Throws Error (usage) for every other name.
KernelBackend kernel_backend_of(const std::string& name);

/// The backend of every call of ops/conv2d that starts now, on all threads: what the environment
/// variable DETFORGE_KERNELS named when this was first called (own if it is not set or empty),
/// unless a ScopedKernelBackend says otherwise. Backward uses the backend that its forward used.
/// Throws Error (usage) if the variable names no backend.
KernelBackend kernel_backend();

/// Another backend while it lives, for tests and benchmarks that compare the two. Holds for the
/// whole process: use it where no other thread computes. Nests.
///   const ScopedKernelBackend reference(KernelBackend::kAten);
class ScopedKernelBackend {
 public:
  explicit ScopedKernelBackend(KernelBackend backend);
  ~ScopedKernelBackend();
  ScopedKernelBackend(const ScopedKernelBackend&) = delete;
  ScopedKernelBackend& operator=(const ScopedKernelBackend&) = delete;

 private:
  KernelBackend before_;
};

}  // namespace detforge
