#pragma once

#include <cstdint>
#include <functional>

namespace detforge::cpu {

/// Gives a kernel scratch memory of so many floats, aligned to 64 bytes, contents undefined, valid
/// until the kernel's call returns. Not called from several threads at once.
using Workspace = std::function<float*(std::int64_t floats)>;

}  // namespace detforge::cpu
