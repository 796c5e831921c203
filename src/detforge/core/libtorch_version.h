#pragma once

#include <torch/version.h>

/// Where LibTorch's interfaces differ between 1.13 and later versions. 2.x: from reading its headers,
/// not compiled.

/// c10::Allocator::allocate() is const before 2.3.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define DETFORGE_ALLOCATE_CONST
#else
#define DETFORGE_ALLOCATE_CONST const
#endif
