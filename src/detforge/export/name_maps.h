#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Names of weights in other programs' files, as Detectron2's names, which are this program's. Pure
/// text.
namespace detforge {

/// What the names in a weights file follow.
enum class NameLayout {
  kNative,        ///< this program's = Detectron2's (Faster/Mask R-CNN) or mmdetection's (YOLOv3)
  kCaffe2ResNet,  ///< MSRA's R-50.pkl, R-101.pkl: "res2_0_branch2a_w"
  kTorchvisionResNet,    ///< resnet50(), resnet101(): "layer1.0.conv1.weight"
  kTorchvisionDetector,  ///< fasterrcnn_resnet50_fpn(), maskrcnn_resnet50_fpn():
                         ///< "backbone.body...."
  kDarknet,              ///< a .weights file has none: they come from the model
  kBareDarknet53,        ///< mmdetection's ImageNet files: "conv_res_block1.conv.conv.weight"
  kBareBackbone,         ///< Detectron2's ImageNet files: "stem.conv1.weight", to be found by their
                         ///< endings
};
const char* describe(NameLayout layout);

/// Recognises the layout by names that only it has.
NameLayout detect_layout(const std::vector<std::string>& names);

/// The name without the "module." that (Distributed)DataParallel puts in front.
std::string strip_module_prefix(std::string_view name);

/// "res2_0_branch2a_bn_s" -> "res2.0.conv1.norm.weight", "conv1_w" -> "stem.conv1.weight",
/// "conv1_gn_b" -> "stem.conv1.norm.bias", "fc1000_w" -> "fc1000.weight": Detectron2's
/// convert_basic_c2_names. The names are below the backbone: match_by_ending() finds it.
std::string caffe2_to_detectron2(std::string_view name);

/// "layer1.0.bn1.bias" -> "res2.0.conv1.norm.bias", "conv1.weight" -> "stem.conv1.weight"; nothing
/// for names that Detectron2's ResNet does not have (fc.*, num_batches_tracked).
std::optional<std::string> torchvision_resnet_to_detectron2(std::string_view name);

/// A name of torchvision's Faster/Mask R-CNN with ResNet-FPN as the full Detectron2 name; nothing
/// for others.
std::optional<std::string> torchvision_detector_to_detectron2(std::string_view name);

/// For each model name, the file name that it ends with (at a dot, or the whole), the longest if
/// several; Detectron2's heuristic for weights of a part of the model. Names without one are left
/// out. Throws Error if one file name would fill two model names.
std::map<std::string, std::string> match_by_ending(const std::vector<std::string>& model_names,
                                                   const std::vector<std::string>& file_names);

}  // namespace detforge
