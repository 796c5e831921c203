// The one precompiled header: std and LibTorch only, never our own headers.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <torch/types.h>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
