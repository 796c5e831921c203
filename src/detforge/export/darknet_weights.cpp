#include "detforge/export/darknet_weights.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/darknet/darknet_detector.h"
#include "detforge/models/yolo/yolov3.h"

namespace detforge {
namespace {

/// Names layers as the .cfg file does.
void set_places(std::vector<DarknetConvolution>& order, const DarknetCfg& cfg) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < cfg.layers.size(); ++i) {
    if (std::holds_alternative<ConvolutionalSpec>(cfg.layers[i].spec)) {
      order.at(next++).place = darknet_layer_place(cfg, i);
    }
  }
}

/// A convolution in front of a [yolo]: its outputs are anchors * (5 + classes).
struct Prediction {
  DarknetConvolution* convolution;
  std::int64_t anchors;

  std::int64_t inputs() const { return convolution->weight_shape[1] + 1; }  // and the bias
};

std::vector<Prediction> predictions_of(const DarknetCfg& cfg,
                                       std::vector<DarknetConvolution>& order) {
  std::vector<Prediction> predictions;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < cfg.layers.size(); ++i) {
    if (!std::holds_alternative<ConvolutionalSpec>(cfg.layers[i].spec)) {
      continue;
    }
    DarknetConvolution& convolution = order.at(next++);
    if (const auto* yolo = std::get_if<YoloSpec>(&cfg.layers[i + 1].spec)) {
      predictions.push_back({&convolution, static_cast<std::int64_t>(yolo->anchors.size())});
    }
  }
  return predictions;
}

std::vector<Prediction> predictions_of(const YoloLayout& layout,
                                       std::vector<DarknetConvolution>& order) {
  std::vector<Prediction> predictions;
  for (DarknetConvolution& convolution : order) {
    if (convolution.conv.find("convs_pred") != std::string::npos) {
      predictions.push_back({&convolution, layout.scales.at(predictions.size()).anchor_count()});
    }
  }
  return predictions;
}

/// Whether a file of so many floats ends behind one of the convolutions.
bool ends_between(const std::vector<DarknetConvolution>& order, std::int64_t floats) {
  for (const DarknetConvolution& convolution : order) {
    floats -= convolution.values();
    if (floats <= 0) {
      return floats == 0;
    }
  }
  return false;
}

/// Gives the predictions the number of classes with which the network has so many floats, if there
/// is one: a file trained on other classes.
void fit_classes(std::vector<DarknetConvolution>& order,
                 const std::vector<Prediction>& predictions,
                 std::int64_t floats) {
  for (const DarknetConvolution& convolution : order) {
    floats -= convolution.values();
  }
  std::int64_t per_class = 0;
  for (const Prediction& prediction : predictions) {
    per_class += prediction.anchors * prediction.inputs();
    floats += prediction.convolution->values() - 5 * prediction.anchors * prediction.inputs();
  }
  if (per_class == 0 || floats <= 0 || floats % per_class != 0) {
    return;
  }
  for (const Prediction& prediction : predictions) {
    prediction.convolution->weight_shape[0] = prediction.anchors * (5 + floats / per_class);
  }
}

/// The order of the convolutions in a file of so many floats for this model.
std::vector<DarknetConvolution> file_order(const torch::nn::Module& model, std::int64_t floats) {
  std::vector<DarknetConvolution> order = darknet_order(model);
  if (ends_between(order, floats)) {
    return order;
  }
  if (const auto* detector = dynamic_cast<const DarknetDetector*>(&model)) {
    fit_classes(order, predictions_of(detector->cfg(), order), floats);
  } else if (const auto* yolo = dynamic_cast<const YoloV3*>(&model)) {
    fit_classes(order, predictions_of(yolo->options().layout, order), floats);
  }
  return order;
}

}  // namespace

std::vector<DarknetConvolution> darknet_order(const torch::nn::Module& model) {
  StateShapes shapes;
  for (const auto& parameter : model.named_parameters()) {
    shapes.emplace(parameter.key(), parameter.value().sizes().vec());
  }
  for (const auto& buffer : model.named_buffers()) {
    shapes.emplace(buffer.key(), buffer.value().sizes().vec());
  }
  std::vector<DarknetConvolution> order = darknet_order(shapes);
  DETFORGE_CHECK(!order.empty(), "Darknet has no such network",
                 "use .weights files with YOLOv3 or with the network of a .cfg file");
  if (const auto* detector = dynamic_cast<const DarknetDetector*>(&model)) {
    set_places(order, detector->cfg());
  }
  return order;
}

WeightsSource interpret_darknet(const DarknetFile& file, const torch::nn::Module& model) {
  const Value state = unpack_darknet(file, file_order(model, file.values.numel()));
  WeightsSource source;
  source.layout = NameLayout::kDarknet;
  for (const Value::Entry& entry : *state.entries()) {
    const std::string& name = *entry.key.get_if<std::string>();
    source.tensors.push_back({name, name, *entry.value.get_if<Tensor>()});
  }
  source.preprocessing = darknet_preprocessing();
  return source;
}

Preprocessing darknet_preprocessing() {
  return {.pixel_mean = {0, 0, 0}, .pixel_std = {255, 255, 255}, .pixel_format = "RGB"};
}

void save_darknet_weights(const std::filesystem::path& file,
                          const torch::nn::Module& model,
                          const DarknetFile& header) {
  Value state = Value::dict();
  for (const auto& parameter : model.named_parameters()) {
    state.set(parameter.key(), parameter.value());
  }
  for (const auto& buffer : model.named_buffers()) {
    state.set(buffer.key(), buffer.value());
  }
  write_darknet_file(file, pack_darknet(state, darknet_order(model), header));
}

}  // namespace detforge
