#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace detforge {

/// What was converted, for people.
struct DarknetConversion {
  std::size_t convolutions = 0;  ///< taken
  std::size_t total = 0;         ///< of the network; more than taken if the file ends early
  std::int64_t floats = 0;
  std::int64_t num_classes = 0;  ///< of YOLOv3; 0 for other networks
};

/// Rewrites a .weights file as {"model": state dict}, with Darknet's preprocessing and the file's
/// header beside it, for torch.load() and load_weights(). With `cfg` the names are those of
/// DarknetDetector; without, the file must be Darknet-53's first 52 convolutions
/// (darknet53.conv.74) or YOLOv3's of any number of classes, which its length tells, and the names
/// are mmdetection's. A file may end behind any convolution of `cfg`, which the counts tell.
/// Throws Error naming the file for everything else.
DarknetConversion convert_from_darknet(const std::filesystem::path& in,
                                       const std::filesystem::path& out,
                                       const std::optional<std::filesystem::path>& cfg);

/// Rewrites the weights file of a DarknetDetector or YOLOv3 (this program's or mmdetection's, or of
/// its backbone alone) as .weights, with the header that convert_from_darknet() kept, if there is
/// one: back and forth gives the same bytes. Throws Error if the file says that it expects images
/// other than darknet_preprocessing(): Darknet could not feed it.
DarknetConversion convert_to_darknet(const std::filesystem::path& in,
                                     const std::filesystem::path& out);

}  // namespace detforge
