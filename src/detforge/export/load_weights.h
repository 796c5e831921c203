#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/serialize/value.h"

namespace detforge {

/// How a weights file expects images; parts that it does not say are empty.
struct Preprocessing {
  std::vector<double> pixel_mean, pixel_std;  ///< in the order of `pixel_format`, pixels 0..255
  std::string pixel_format;                   ///< "BGR" or "RGB"
};

struct LoadOptions {
  /// Error if a smaller part of the backbone's tensors is loaded; 0 allows everything.
  double min_backbone_fraction = 0.9;
};

/// What became of every tensor of the model and the file. Names are the model's unless stated.
struct LoadReport {
  std::string layout;  ///< whose names the file has, for people
  std::vector<std::string> loaded;
  std::vector<std::string>
      reinitialised;  ///< in both, but of another shape: the model's values stay; with both shapes
  std::vector<std::string> missing;     ///< in the model only: its values stay
  std::vector<std::string> unexpected;  ///< in the file only; the file's names
  std::vector<std::string>
      ignored;  ///< the file's names that mean nothing here (counters, stored anchors)
  double backbone_fraction = 1.0;        ///< of the backbone's tensors; 1 if the model has none
  Preprocessing preprocessing;           ///< to be compared with the run's own
  std::vector<std::string> class_names;  ///< if the file says them
  bool averaged = false;  ///< the file is a checkpoint with both, and its `ema` was taken

  /// One short table with a row for each of loaded / re-initialised / missing / unexpected /
  /// ignored, and the names below it, at most 12 of each.
  std::string table() const;
};

/// Copies weights from a file (see read_torch_file() for the formats) into a model's parameters and
/// buffers by name, converting the dtype. Understands {"model": ...} (Detectron2, own checkpoints,
/// of which the averaged weights `ema` are taken where they are there),
/// {"state_dict": ...} (mmdetection, Lightning), {"blobs": ...} (Caffe2), a plain state dict, names
/// with "module." in front, the layouts of name_maps.h, and Darknet's .weights for the models of
/// darknet_order() (the first convolutions alone, as in darknet53.conv.74, too). Tensors of another
/// shape (heads for
/// other classes) keep the model's values. torchvision's predictors are reordered: there the
/// background is class 0, here it is the last one. Throws Error, with the model unchanged: the file
/// cannot be read, holds no tensors or not-finite ones, two of its names mean one tensor of the
/// model, none fits, or less than min_backbone_fraction of the backbone would be loaded.
LoadReport load_weights(torch::nn::Module& model,
                        const std::filesystem::path& file,
                        const LoadOptions& options = {});

/// The same for a file that has been read already; `path` is for messages.
LoadReport load_weights(torch::nn::Module& model,
                        const Value& content,
                        const std::string& path,
                        const LoadOptions& options);

/// Writes {"model": state dict} with torch.save's format, for Python: torch.load(file)["model"].
void save_weights(const std::filesystem::path& file, const torch::nn::Module& model);

}  // namespace detforge
