#include "detforge/export/weights_source.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr double kPixelTolerance = 1e-3;

/// Own checkpoints of averaged weights: what training goes on from is not what was evaluated.
bool has_average(const Value& content) {
  return content.find("ema") != nullptr && content.find("ema_updates") != nullptr;
}

const Value& state_dict_of(const Value& content) {
  if (has_average(content)) {
    return *content.find("ema");
  }
  for (const char* key : {"model", "state_dict", "blobs"}) {
    const Value* inner = content.find(key);
    if (inner != nullptr && inner->entries() != nullptr) {
      return *inner;
    }
  }
  return content;
}

std::vector<double> to_doubles(const Value& value) {
  std::vector<double> numbers;
  if (const auto* tensor = value.get_if<Tensor>()) {
    const Tensor flat = tensor->to(at::kDouble).flatten();
    numbers.assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  } else if (value.items() != nullptr) {
    for (const Value& item : *value.items()) {
      numbers.push_back(item.item("pixel statistics").number());
    }
  }
  return numbers;
}

/// True for a whole YOLOv3 that mmdetection saved: its files have `meta`, ours do not.
bool is_mmdetection_yolo(const Value& content, const Value& state_dict) {
  return content.find("meta") != nullptr &&
         state_dict.find("bbox_head.convs_pred.0.weight") != nullptr;
}

/// What the file says, and what is known of files of this layout. Refs: Detectron2's configs for
/// MSRA models (BGR, std 1), torchvision's transforms (RGB, 0..1, here times 255) and mmdetection's
/// yolov3_d53 (RGB, 0..1).
Preprocessing find_preprocessing(const Value& content, const Value& state_dict, NameLayout layout) {
  Preprocessing found;
  if (layout == NameLayout::kCaffe2ResNet) {
    found = {{103.530, 116.280, 123.675}, {1.0, 1.0, 1.0}, "BGR"};
  } else if (layout == NameLayout::kTorchvisionResNet ||
             layout == NameLayout::kTorchvisionDetector) {
    found = {{123.675, 116.280, 103.530}, {58.395, 57.120, 57.375}, "RGB"};
  } else if (layout == NameLayout::kBareDarknet53 || is_mmdetection_yolo(content, state_dict)) {
    found = {{0.0, 0.0, 0.0}, {255.0, 255.0, 255.0}, "RGB"};
  }
  for (const Value* place : {&state_dict, &content}) {
    if (const Value* mean = place->find("pixel_mean")) {
      found.pixel_mean = to_doubles(*mean);
    }
    if (const Value* deviation = place->find("pixel_std")) {
      found.pixel_std = to_doubles(*deviation);
    }
  }
  if (const Value* format = content.find("pixel_format");
      format != nullptr && format->get_if<std::string>() != nullptr) {
    found.pixel_format = *format->get_if<std::string>();
  }
  return found;
}

/// Whether two lists are equal, or the file's says nothing.
bool numbers_fit(const std::vector<double>& file, const std::vector<double>& wanted) {
  const auto is_near = [](double a, double b) { return std::abs(a - b) <= kPixelTolerance; };
  return file.empty() ||
         std::equal(file.begin(), file.end(), wanted.begin(), wanted.end(), is_near);
}

/// Ours, or those that mmdetection 3 or 2 wrote.
const Value* find_class_list(const Value& content) {
  if (const Value* own = content.find("class_names")) {
    return own;
  }
  const Value* meta = content.find("meta");
  if (meta == nullptr) {
    return nullptr;
  }
  const Value* data_set = meta->find("dataset_meta");
  return data_set != nullptr ? data_set->find("classes") : meta->find("CLASSES");
}

std::vector<std::string> find_class_names(const Value& content) {
  std::vector<std::string> names;
  const Value* list = find_class_list(content);
  if (list != nullptr && list->items() != nullptr) {
    for (const Value& name : *list->items()) {
      names.push_back(name.item("class_names").string());
    }
  }
  return names;
}

std::string convert_name(const std::string& name, NameLayout layout) {
  switch (layout) {
    case NameLayout::kCaffe2ResNet:
      return caffe2_to_detectron2(name);
    case NameLayout::kTorchvisionResNet:
      return torchvision_resnet_to_detectron2(name).value_or("");
    case NameLayout::kTorchvisionDetector:
      return torchvision_detector_to_detectron2(name).value_or("");
    case NameLayout::kBareDarknet53:
      return "backbone." + name;  // by their endings they would be the neck's, too
    case NameLayout::kBareBackbone:
    case NameLayout::kDarknet:
    case NameLayout::kNative:
      break;
  }
  return name;
}

/// torchvision: background first, a box per class with background. Here: background last, boxes for
/// objects only.
Tensor reorder_classes(const std::string& model_name, const Tensor& tensor) {
  if (tensor.dim() == 0) {
    return tensor;
  }
  if (model_name.find("box_predictor.cls_score.") != std::string::npos) {
    return tensor.roll(-1, 0);
  }
  if (model_name.find("box_predictor.bbox_pred.") != std::string::npos && tensor.size(0) > 4) {
    return tensor.narrow(0, 4, tensor.size(0) - 4);
  }
  if (model_name.find("mask_head.predictor.") != std::string::npos && tensor.size(0) > 1) {
    return tensor.narrow(0, 1, tensor.size(0) - 1);
  }
  return tensor;
}

/// Names of a part of the model become full names by their endings.
void complete_names(std::vector<FileTensor>& tensors, const std::vector<std::string>& model_names) {
  std::vector<std::string> partial;
  for (const FileTensor& tensor : tensors) {
    partial.push_back(tensor.model_name);
  }
  std::map<std::string, std::string> full;
  for (const auto& [model_name, ending] : match_by_ending(model_names, partial)) {
    full.emplace(ending, model_name);
  }
  for (FileTensor& tensor : tensors) {
    const auto found = full.find(tensor.model_name);
    tensor.model_name = found == full.end() ? "" : found->second;
  }
}

}  // namespace

bool preprocessing_fits(const Preprocessing& file, const Preprocessing& wanted) {
  return (file.pixel_format.empty() || file.pixel_format == wanted.pixel_format) &&
         numbers_fit(file.pixel_mean, wanted.pixel_mean) &&
         numbers_fit(file.pixel_std, wanted.pixel_std);
}

bool carries_no_weights(std::string_view name) {
  return name.ends_with("num_batches_tracked") || name.ends_with("_momentum") ||
         name.find("cell_anchors") != std::string_view::npos || name == "pixel_mean" ||
         name == "pixel_std";
}

WeightsSource interpret_weights(const Value& content, const std::vector<std::string>& model_names) {
  const Value& state_dict = state_dict_of(content);
  WeightsSource source;
  std::vector<std::string> names;
  for (const Value::Entry& entry : state_dict.item("the file's content").dict()) {
    const auto* name = entry.key.get_if<std::string>();
    const auto* tensor = entry.value.get_if<Tensor>();
    if (name == nullptr || tensor == nullptr) {
      continue;
    }
    if (carries_no_weights(*name)) {
      source.ignored.push_back(*name);
      continue;
    }
    source.tensors.push_back({*name, strip_module_prefix(*name), *tensor});
    names.push_back(source.tensors.back().model_name);
  }
  DETFORGE_CHECK(!source.tensors.empty(), "the file holds no weights",
                 "expected a state dict, alone or under 'model', 'state_dict' or 'blobs'");
  source.layout = detect_layout(names);
  for (FileTensor& tensor : source.tensors) {
    tensor.model_name = convert_name(tensor.model_name, source.layout);
    if (source.layout == NameLayout::kTorchvisionDetector) {
      tensor.tensor = reorder_classes(tensor.model_name, tensor.tensor);
    }
  }
  const Value* heuristics = content.find("matching_heuristics");
  const bool asks_for_endings =
      heuristics != nullptr && heuristics->get_if<bool>() != nullptr && *heuristics->get_if<bool>();
  const bool are_partial = source.layout == NameLayout::kCaffe2ResNet ||
                           source.layout == NameLayout::kTorchvisionResNet ||
                           source.layout == NameLayout::kBareBackbone;
  if (asks_for_endings || are_partial) {
    complete_names(source.tensors, model_names);
  }
  source.preprocessing = find_preprocessing(content, state_dict, source.layout);
  source.class_names = find_class_names(content);
  source.averaged = has_average(content);
  return source;
}

}  // namespace detforge
