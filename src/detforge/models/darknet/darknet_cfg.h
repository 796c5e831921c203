#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace detforge {

enum class DarknetActivation { kLinear, kLeaky, kRelu, kMish };

/// One image's feature map.
struct DarknetShape {
  std::int64_t channels = 0, height = 0, width = 0;
  bool operator==(const DarknetShape&) const = default;
};

struct ConvolutionalSpec {
  std::int64_t filters = 1, size = 1, stride = 1, padding = 0, groups = 1;
  bool batch_normalize = false;  ///< else a bias
  DarknetActivation activation = DarknetActivation::kLinear;
};
/// activation(layer before + layer `from`)
struct ShortcutSpec {
  std::size_t from = 0;
  DarknetActivation activation = DarknetActivation::kLinear;
};
/// Channels of the layers one after the other; of each the part `group` of `groups` equal ones.
struct RouteSpec {
  std::vector<std::size_t> layers;
  std::int64_t groups = 1, group = 0;
};
/// Nearest neighbour.
struct UpsampleSpec {
  std::int64_t stride = 2;
};
/// Maximum over windows that begin at i * stride - padding / 2; size (in + padding - size) / stride
/// + 1. `padding` counts both sides together, the smaller half first; padded pixels never win.
struct MaxpoolSpec {
  std::int64_t size = 1, stride = 1, padding = 0;
};
struct DropoutSpec {
  double probability = 0.5;
};
/// The layer before it is an output map of a YOLO head.
struct YoloSpec {
  std::vector<std::array<double, 2>> anchors;  ///< (width, height) in pixels, those of `mask` alone
  std::int64_t classes = 0;
  std::int64_t stride = 0;  ///< image pixels per cell
  double ignore_thresh = 0.5;
  double scale_x_y = 1.0;
};

struct DarknetLayer {
  std::string kind;       ///< as in the file: "convolutional"
  std::int64_t line = 0;  ///< of its [section]
  std::variant<ConvolutionalSpec,
               ShortcutSpec,
               RouteSpec,
               UpsampleSpec,
               MaxpoolSpec,
               DropoutSpec,
               YoloSpec>
      spec;
  DarknetShape in, out;  ///< `in`: of the layer before (of the first one for a route)
};

/// A network as its .cfg file describes it. Layers are numbered as Darknet prints them: 0 is the
/// first section after [net].
struct DarknetCfg {
  std::int64_t height = 0, width = 0;  ///< of the network input; others work, see size_divisibility
  std::vector<DarknetLayer> layers;    ///< at least one [yolo]
  std::int64_t num_classes = 0;        ///< the same in all [yolo]
  std::vector<std::string> unused;     ///< settings that have no effect here: "[net] batch=64"

  /// Inputs of these multiples give whole maps: the largest stride of any layer.
  std::int64_t size_divisibility() const;
};

/// "layer 3 [convolutional], line 40": for messages.
std::string darknet_layer_place(const DarknetCfg& cfg, std::size_t layer);

/// Reads and checks a description of a network, and says of every mistake the layer and the line:
/// layers and keys that do not exist (with the nearest that does), values out of range, a route or
/// shortcut to a layer that is not there or of another size, filters before a [yolo] that are not
/// masks * (5 + classes), [yolo] layers of different classes, layers that lead to no [yolo].
/// Memory: a small multiple of the text, whatever it says.
DarknetCfg parse_darknet_cfg(std::string_view text);

/// The same of a file, which errors name.
DarknetCfg read_darknet_cfg(const std::filesystem::path& file);

}  // namespace detforge
