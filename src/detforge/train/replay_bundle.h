#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "detforge/models/detector.h"
#include "detforge/serialize/value.h"
#include "detforge/structures/batch.h"

namespace detforge {

/// Everything that a training step depended on, to make it happen again elsewhere: `detforge
/// replay`.
struct ReplayBundle {
  std::int64_t iteration = 0;
  double lr = 0, loss_scale = 1;
  std::string nonfinite;  ///< what was not finite
  std::vector<std::pair<std::string, double>> losses;
  Batch batch;         ///< with the random keys and masks
  Value model;         ///< state dict of the weights and buffers that the step met
  std::string config;  ///< YAML
};

/// Written as torch.save does, readable by Python's torch.load. Atomic. Throws Error.
void write_replay_bundle(const std::filesystem::path& path, const ReplayBundle& bundle);

/// Throws Error naming the file and what is wrong in it.
ReplayBundle read_replay_bundle(const std::filesystem::path& path);

}  // namespace detforge
