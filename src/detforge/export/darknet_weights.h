#pragma once

#include <filesystem>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/export/darknet_pack.h"
#include "detforge/export/weights_source.h"

namespace detforge {

/// The convolutions of a model; those of a DarknetDetector with their layer and line in the .cfg
/// file. Throws Error if the model is neither that nor a YOLOv3.
std::vector<DarknetConvolution> darknet_order(const torch::nn::Module& model);

/// How Darknet feeds its networks: RGB / 255.
Preprocessing darknet_preprocessing();

/// A file's numbers under the names of `model`, for load_weights(). A file of the same network for
/// another number of classes is recognised by its length: its last convolutions have other shapes
/// then.
WeightsSource interpret_darknet(const DarknetFile& file, const torch::nn::Module& model);

/// Writes the weights of a DarknetDetector or YOLOv3 for Darknet. `header`: its version and `seen`.
void save_darknet_weights(const std::filesystem::path& file,
                          const torch::nn::Module& model,
                          const DarknetFile& header = {});

}  // namespace detforge
