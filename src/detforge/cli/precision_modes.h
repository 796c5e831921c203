#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "detforge/cli/arguments.h"

/// Training steps in several precisions side by side: each in a process of its own, so that peaks
/// of memory do not mix.
namespace detforge {

/// "fp32", "hf32", "o1", "o2", "o3"; the last three also with -bf16, all also with -checkpoint:
/// "o2-bf16-checkpoint". Throws Error (usage) for any other name. The overrides that it means.
std::vector<std::string> mode_overrides(const std::string& mode);

/// What `detforge bench train` says about this mode: its --json.
nlohmann::json bench_in_child(const BenchArguments& arguments, const std::string& mode);

/// bench train --modes: measures and prints the table of speed, memory and loss.
int bench_modes(const BenchArguments& arguments);

/// inspect --memory: the peak of each mode, predicted from steps on smaller images.
void print_predicted_memory(const InspectArguments& arguments);

}  // namespace detforge
