#pragma once

#include <string>
#include <vector>

#include "detforge/export/load_weights.h"
#include "detforge/export/name_maps.h"

namespace detforge {

/// A tensor of a weights file.
struct FileTensor {
  std::string file_name;   ///< as in the file
  std::string model_name;  ///< converted; empty if the model can have no such tensor
  Tensor tensor;           ///< with this program's order of classes
};

/// The tensors of a weights file under this program's names.
struct WeightsSource {
  NameLayout layout = NameLayout::kNative;
  std::vector<FileTensor> tensors;
  std::vector<std::string> ignored;  ///< file names that mean nothing here
  Preprocessing preprocessing;
  std::vector<std::string> class_names;
  bool averaged = false;  ///< see LoadReport
};

/// Whether the parts that `file` says are those of `wanted`, to 0.001.
bool preprocessing_fits(const Preprocessing& file, const Preprocessing& wanted);

/// Whether a tensor of this name holds nothing to be learnt: counters of BatchNorm, stored anchors
/// and pixel statistics, momentum inside Caffe2 blobs.
bool carries_no_weights(std::string_view name);

/// Finds the state dict in a file's content, recognises its layout and converts names to those of a
/// model whose tensors are `model_names`. Throws Error if there is no tensor in it.
WeightsSource interpret_weights(const Value& content, const std::vector<std::string>& model_names);

}  // namespace detforge
