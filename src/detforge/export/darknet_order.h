#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace detforge {

/// Shapes of tensors by state name.
using StateShapes = std::map<std::string, std::vector<std::int64_t>>;

/// One convolution as .weights files hold it: the bias [O], or beta, gamma, running mean and
/// running variance [O] each; then the weights [O,I,k,k], row-major.
struct DarknetConvolution {
  std::string conv;                        ///< state name of the part that has .weight (and .bias)
  std::string norm;                        ///< of its BatchNorm; empty: a bias instead
  std::vector<std::int64_t> weight_shape;  ///< [O,I,k,k], all positive
  std::string place;                       ///< for messages

  std::int64_t values() const;  ///< floats in the file
};

/// The convolutions of a network in the order of a .weights file, by the names of its state:
/// "layers.N.conv.*" of a .cfg file's network by N, or mmdetection's YOLOv3 or its backbone alone
/// in the order of Darknet's yolov3.cfg (of any width, number of blocks and classes). Empty for
/// other names. Throws Error for a convolution whose parts are missing or of impossible shape.
std::vector<DarknetConvolution> darknet_order(const StateShapes& state);

}  // namespace detforge
