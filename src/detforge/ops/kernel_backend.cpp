#include "detforge/ops/kernel_backend.h"

#include <atomic>
#include <cstdlib>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr const char* kVariable = "DETFORGE_KERNELS";

KernelBackend backend_of_environment() {
  const char* name = std::getenv(kVariable);
  if (name == nullptr || *name == '\0') {
    return KernelBackend::kOwn;
  }
  try {
    return kernel_backend_of(name);
  } catch (Error& error) {
    throw error.add_where(std::string("environment variable ") + kVariable);
  }
}

std::atomic<KernelBackend>& current() {
  static std::atomic<KernelBackend> backend = backend_of_environment();
  return backend;
}

}  // namespace

const char* kernel_backend_name(KernelBackend backend) {
  return backend == KernelBackend::kOwn ? "own" : "aten";
}

KernelBackend kernel_backend_of(const std::string& name) {
  for (const KernelBackend backend : {KernelBackend::kOwn, KernelBackend::kAten}) {
    if (name == kernel_backend_name(backend)) {
      return backend;
    }
  }
  throw Error("there are no kernels called \"" + name + "\"",
              "use own (DetForge's) or aten (LibTorch's, the reference)", Error::Kind::kUsage);
}

KernelBackend kernel_backend() {
  return current().load(std::memory_order_relaxed);
}

ScopedKernelBackend::ScopedKernelBackend(KernelBackend backend)
    : before_(current().exchange(backend)) {}

ScopedKernelBackend::~ScopedKernelBackend() {
  current() = before_;
}

}  // namespace detforge
