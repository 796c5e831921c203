#include "detforge/export/darknet_convert.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/export/darknet_weights.h"
#include "detforge/models/darknet/darknet_detector.h"
#include "detforge/models/yolo/yolov3.h"
#include "detforge/serialize/torch_file.h"

namespace detforge {
namespace {

// Convolutions, and floats of their weights, biases and BatchNorms, in the files of yolov3.cfg.
constexpr std::size_t kBackboneConvolutions = 52;
constexpr std::int64_t kBackboneFloats = 40'620'640;
constexpr std::int64_t kFloatsWithoutClasses = 61'570'957;  // each anchor predicts 5 values
constexpr std::int64_t kFloatsPerClass = 3 * (1024 + 512 + 256) + 9;  // weights and biases

/// 0 for the backbone alone.
std::int64_t yolov3_classes(std::int64_t floats) {
  if (floats == kBackboneFloats) {
    return 0;
  }
  const std::int64_t rest = floats - kFloatsWithoutClasses;
  DETFORGE_CHECK(rest > 0 && rest % kFloatsPerClass == 0,
                 fmt::format("{} floats are neither Darknet-53's nor YOLOv3's of any number of "
                             "classes",
                             floats),
                 "name the .cfg file of the network");
  return rest / kFloatsPerClass;
}

std::vector<DarknetConvolution> yolov3_order(std::int64_t num_classes) {
  YoloV3Options options;
  options.layout.num_classes = std::max<std::int64_t>(num_classes, 1);
  std::vector<DarknetConvolution> order = darknet_order(YoloV3(options, 0));
  if (num_classes == 0) {
    order.resize(kBackboneConvolutions);
  }
  return order;
}

Value numbers(const std::vector<double>& values) {
  Value list = Value::list();
  for (const double value : values) {
    list.append(value);
  }
  return list;
}

Value with_preprocessing(Value state, const DarknetFile& file) {
  const Preprocessing pixels = darknet_preprocessing();
  return Value::dict()
      .set("model", std::move(state))
      .set("darknet", darknet_header(file))
      .set("pixel_mean", numbers(pixels.pixel_mean))
      .set("pixel_std", numbers(pixels.pixel_std))
      .set("pixel_format", pixels.pixel_format);
}

/// What is said of the images; at least one part is.
std::string describe(const Preprocessing& images) {
  std::vector<std::string> parts;
  if (!images.pixel_format.empty()) {
    parts.push_back(images.pixel_format);
  }
  if (!images.pixel_mean.empty()) {
    parts.push_back(fmt::format("mean [{}]", fmt::join(images.pixel_mean, ", ")));
  }
  if (!images.pixel_std.empty()) {
    parts.push_back(fmt::format("std [{}]", fmt::join(images.pixel_std, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void check_images_fit(const Preprocessing& images) {
  const Preprocessing darknet = darknet_preprocessing();
  DETFORGE_CHECK(preprocessing_fits(images, darknet),
                 fmt::format("the weights expect other images ({}) than Darknet gives ({})",
                             describe(images), describe(darknet)),
                 "train with INPUT.FORMAT RGB, MODEL.PIXEL_MEAN [0, 0, 0] and MODEL.PIXEL_STD "
                 "[255, 255, 255]");
}

DarknetFile file_of(const Value& content) {
  DETFORGE_CHECK(holds_darknet_file(content), "this is no Darknet .weights file",
                 "give a .weights file to convert from");
  return to_darknet_file(content);
}

std::size_t count_taken(const Value& state, const std::vector<DarknetConvolution>& order) {
  const auto is_taken = [&](const DarknetConvolution& convolution) {
    return state.find(convolution.conv + ".weight") != nullptr;
  };
  return static_cast<std::size_t>(std::count_if(order.begin(), order.end(), is_taken));
}

DarknetConversion from_darknet(const DarknetFile& file,
                               const std::filesystem::path& out,
                               std::optional<DarknetCfg> cfg) {
  DarknetConversion done{.floats = file.values.numel()};
  std::vector<DarknetConvolution> order;
  if (cfg) {
    order = darknet_order(DarknetDetector({.cfg = std::move(*cfg)}, 0));
  } else {
    done.num_classes = yolov3_classes(done.floats);
    order = yolov3_order(done.num_classes);
  }
  Value state = unpack_darknet(file, order);
  done.total = order.size();
  done.convolutions = count_taken(state, order);
  write_torch_file(out, with_preprocessing(std::move(state), file));
  return done;
}

/// Names of Darknet-53 alone are those of a backbone; there is no model to find that out from.
std::string model_name(const FileTensor& tensor, NameLayout layout) {
  return layout == NameLayout::kBareDarknet53 ? "backbone." + strip_module_prefix(tensor.file_name)
                                              : tensor.model_name;
}

DarknetConversion to_darknet(const Value& content, const std::filesystem::path& out) {
  DETFORGE_CHECK(!holds_darknet_file(content), "this is a .weights file already",
                 "give a .pth, .pkl or .safetensors file to convert from");
  Value state = Value::dict();
  StateShapes shapes;
  const WeightsSource source = interpret_weights(content, {});
  for (const FileTensor& tensor : source.tensors) {
    const std::string name = model_name(tensor, source.layout);
    state.set(name, tensor.tensor);
    shapes.emplace(name, tensor.tensor.sizes().vec());
  }
  const std::vector<DarknetConvolution> order = darknet_order(shapes);
  DETFORGE_CHECK(!order.empty(), "these are no weights of YOLOv3 or of the network of a .cfg file",
                 "only those have a .weights form");
  check_images_fit(source.preprocessing);
  const bool has_header = content.find("darknet") != nullptr;
  const DarknetFile file =
      pack_darknet(state, order, has_header ? to_darknet_file(content) : DarknetFile{});
  write_darknet_file(out, file);
  return {.convolutions = order.size(), .total = order.size(), .floats = file.values.numel()};
}

}  // namespace

DarknetConversion convert_from_darknet(const std::filesystem::path& in,
                                       const std::filesystem::path& out,
                                       const std::optional<std::filesystem::path>& cfg) {
  const Value content = read_torch_file(in);
  std::optional<DarknetCfg> network;
  if (cfg) {
    network = read_darknet_cfg(*cfg);
  }
  try {
    return from_darknet(file_of(content), out, std::move(network));
  } catch (Error& error) {
    error.add_where(in.string());
    throw;
  }
}

DarknetConversion convert_to_darknet(const std::filesystem::path& in,
                                     const std::filesystem::path& out) {
  const Value content = read_torch_file(in);
  try {
    return to_darknet(content, out);
  } catch (Error& error) {
    error.add_where(in.string());
    throw;
  }
}

}  // namespace detforge
