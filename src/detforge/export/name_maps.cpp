#include "detforge/export/name_maps.h"

#include <array>
#include <set>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

struct Replacement {
  std::string_view from, to;
};

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

/// Replaces the first prefix that fits.
template <std::size_t N>
std::optional<std::string> replace_prefix(std::string_view text,
                                          const std::array<Replacement, N>& replacements) {
  for (const auto& [from, to] : replacements) {
    if (starts_with(text, from)) {
      return std::string(to) + std::string(text.substr(from.size()));
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

/// "conv1.gn.s" -> "conv1.norm.weight" ...: the ending that tells what the tensor is.
std::string caffe2_kind(std::string_view name) {
  constexpr std::array<Replacement, 12> kEndings = {{{".bn.s", ".norm.weight"},
                                                     {".bn.gamma", ".norm.weight"},
                                                     {".bn.b", ".norm.bias"},
                                                     {".bn.beta", ".norm.bias"},
                                                     {".bn.rm", ".norm.running_mean"},
                                                     {".bn.running.mean", ".norm.running_mean"},
                                                     {".bn.riv", ".norm.running_var"},
                                                     {".bn.running.var", ".norm.running_var"},
                                                     {".gn.s", ".norm.weight"},
                                                     {".gn.b", ".norm.bias"},
                                                     {".w", ".weight"},
                                                     {".b", ".bias"}}};
  for (const auto& [from, to] : kEndings) {
    if (name.ends_with(from)) {
      return std::string(name.substr(0, name.size() - from.size())) + std::string(to);
    }
  }
  return std::string(name);
}

/// "1.0" -> nothing special; "downsample.1.bias" -> "shortcut.norm.bias" ...: the rest of a name in
/// a block.
std::optional<std::string> torchvision_block_part(std::string_view part) {
  constexpr std::array<Replacement, 8> kParts = {{{"downsample.0.", "shortcut."},
                                                  {"downsample.1.", "shortcut.norm."},
                                                  {"conv1.", "conv1."},
                                                  {"conv2.", "conv2."},
                                                  {"conv3.", "conv3."},
                                                  {"bn1.", "conv1.norm."},
                                                  {"bn2.", "conv2.norm."},
                                                  {"bn3.", "conv3.norm."}}};
  return replace_prefix(part, kParts);
}

/// "0.weight", "0.0.weight", "weight" -> "weight": torchvision wrapped these layers differently
/// over time.
std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

/// "inner_blocks.1.0.weight" -> fpn_lateral3.weight, "layer_blocks.1.bias" -> fpn_output3.bias,
/// "inner_blocks.1.1.bias" -> fpn_lateral3.norm.bias.
std::optional<std::string> torchvision_fpn(std::string_view name) {
  const std::vector<std::string_view> parts = split(name, '.');
  const bool is_layer = parts.size() == 3 || (parts.size() == 4 && parts[2] == "0"),
             is_norm = parts.size() == 4 && parts[2] == "1";
  if (!(is_layer || is_norm) || parts[1].size() != 1 || parts[1][0] < '0' || parts[1][0] > '3') {
    return std::nullopt;
  }
  const char* kind = parts[0] == "inner_blocks"   ? "lateral"
                     : parts[0] == "layer_blocks" ? "output"
                                                  : nullptr;
  if (kind == nullptr) {
    return std::nullopt;
  }
  return fmt::format("backbone.fpn_{}{}.{}{}", kind, parts[1][0] - '0' + 2, is_norm ? "norm." : "",
                     last_part(name));
}

/// "conv.0.0.weight", "conv.weight" -> conv.weight; nothing for further convolutions, which
/// Detectron2's head does not have.
std::optional<std::string> torchvision_rpn_convolution(std::string_view part) {
  constexpr std::string_view kFirst = "0.0.";
  part.remove_prefix(starts_with(part, kFirst) ? kFirst.size() : 0);
  if (part.find('.') != std::string_view::npos) {
    return std::nullopt;
  }
  return fmt::format("proposal_generator.rpn_head.conv.{}", part);
}

}  // namespace

const char* describe(NameLayout layout) {
  switch (layout) {
    case NameLayout::kCaffe2ResNet:
      return "Caffe2 ResNet";
    case NameLayout::kTorchvisionResNet:
      return "torchvision ResNet";
    case NameLayout::kTorchvisionDetector:
      return "torchvision detector";
    case NameLayout::kBareDarknet53:
      return "mmdetection Darknet-53";
    case NameLayout::kBareBackbone:
      return "Detectron2 backbone";
    case NameLayout::kDarknet:
      return "Darknet";
    case NameLayout::kNative:
      break;
  }
  return "DetForge / Detectron2";
}

NameLayout detect_layout(const std::vector<std::string>& names) {
  const std::set<std::string> all(names.begin(), names.end());
  const auto has = [&all](const char* name) { return all.count(name) != 0; };
  if (has("conv1_w") || has("res2_0_branch2a_w")) {
    return NameLayout::kCaffe2ResNet;
  }
  if (has("conv1.weight") && has("layer1.0.conv1.weight")) {
    return NameLayout::kTorchvisionResNet;
  }
  if (has("backbone.body.conv1.weight")) {
    return NameLayout::kTorchvisionDetector;
  }
  if (has("conv_res_block1.conv.conv.weight")) {
    return NameLayout::kBareDarknet53;
  }
  return has("stem.conv1.weight") ? NameLayout::kBareBackbone : NameLayout::kNative;
}

std::string strip_module_prefix(std::string_view name) {
  constexpr std::string_view kPrefix = "module.";
  return std::string(starts_with(name, kPrefix) ? name.substr(kPrefix.size()) : name);
}

std::string caffe2_to_detectron2(std::string_view name) {
  constexpr std::array<Replacement, 3> kStarts = {
      {{"res.conv1.norm.", "stem.conv1.norm."}, {"conv1.", "stem.conv1."}, {"pred.", "linear."}}};
  constexpr std::array<Replacement, 4> kBranches = {{{".branch1.", ".shortcut."},
                                                     {".branch2a.", ".conv1."},
                                                     {".branch2b.", ".conv2."},
                                                     {".branch2c.", ".conv3."}}};
  std::string converted(name);
  std::replace(converted.begin(), converted.end(), '_', '.');
  converted = caffe2_kind(converted);
  converted = replace_prefix(converted, kStarts).value_or(converted);
  for (const auto& [from, to] : kBranches) {
    if (const std::size_t at = converted.find(from); at != std::string::npos) {
      converted.replace(at, from.size(), to);
    }
  }
  return converted;
}

std::optional<std::string> torchvision_resnet_to_detectron2(std::string_view name) {
  if (name.ends_with("num_batches_tracked")) {
    return std::nullopt;
  }
  constexpr std::array<Replacement, 2> kStem = {
      {{"conv1.", "stem.conv1."}, {"bn1.", "stem.conv1.norm."}}};
  if (const auto stem = replace_prefix(name, kStem)) {
    return stem;
  }
  // layer1.0.conv1.weight: stage, block, the rest
  const bool in_stage = starts_with(name, "layer") && name.size() > 7 && name[5] >= '1' &&
                        name[5] <= '4' && name[6] == '.';
  const std::size_t block_end = in_stage ? name.find('.', 7) : std::string_view::npos;
  if (block_end == std::string_view::npos) {
    return std::nullopt;
  }
  const auto part = torchvision_block_part(name.substr(block_end + 1));
  if (!part) {
    return std::nullopt;
  }
  return fmt::format("res{}.{}.{}", name[5] - '0' + 1, name.substr(7, block_end - 7), *part);
}

std::optional<std::string> torchvision_detector_to_detectron2(std::string_view name) {
  constexpr std::string_view kBody = "backbone.body.";
  constexpr std::string_view kFpn = "backbone.fpn.";
  if (starts_with(name, kBody)) {
    const auto below = torchvision_resnet_to_detectron2(name.substr(kBody.size()));
    return below ? std::optional("backbone.bottom_up." + *below) : std::nullopt;
  }
  if (starts_with(name, kFpn)) {
    return torchvision_fpn(name.substr(kFpn.size()));
  }
  if (constexpr std::string_view kConvolution = "rpn.head.conv."; starts_with(name, kConvolution)) {
    return torchvision_rpn_convolution(name.substr(kConvolution.size()));
  }
  if (starts_with(name, "roi_heads.mask_head.mask_fcn")) {  // mask_fcn1.weight
    return std::string(name);
  }
  constexpr std::array<Replacement, 8> kHeads = {
      {{"rpn.head.cls_logits.", "proposal_generator.rpn_head.objectness_logits."},
       {"rpn.head.bbox_pred.", "proposal_generator.rpn_head.anchor_deltas."},
       {"roi_heads.box_head.fc6.", "roi_heads.box_head.fc1."},
       {"roi_heads.box_head.fc7.", "roi_heads.box_head.fc2."},
       {"roi_heads.box_predictor.cls_score.", "roi_heads.box_predictor.cls_score."},
       {"roi_heads.box_predictor.bbox_pred.", "roi_heads.box_predictor.bbox_pred."},
       {"roi_heads.mask_predictor.conv5_mask.", "roi_heads.mask_head.deconv."},
       {"roi_heads.mask_predictor.mask_fcn_logits.", "roi_heads.mask_head.predictor."}}};
  return replace_prefix(name, kHeads);
}

std::map<std::string, std::string> match_by_ending(const std::vector<std::string>& model_names,
                                                   const std::vector<std::string>& file_names) {
  const std::set<std::string_view> available(file_names.begin(), file_names.end());
  std::map<std::string, std::string> matches;
  std::map<std::string_view, std::string> used;
  for (const std::string& model_name : model_names) {
    // Endings from the longest: the whole name, then behind each dot.
    for (std::size_t start = 0; start != std::string::npos;) {
      const auto found = available.find(std::string_view(model_name).substr(start));
      if (found != available.end()) {
        const auto [other, is_new] = used.emplace(*found, model_name);
        DETFORGE_CHECK(
            is_new, fmt::format("the file's {} fits {} and {}", *found, other->second, model_name),
            "rename the weights in the file to their full names");
        matches.emplace(model_name, *found);
        break;
      }
      const std::size_t dot = model_name.find('.', start);
      start = dot == std::string::npos ? dot : dot + 1;
    }
  }
  return matches;
}

}  // namespace detforge
