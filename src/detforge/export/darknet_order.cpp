#include "detforge/export/darknet_order.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// The shape of a tensor that must be there.
const std::vector<std::int64_t>& shape_of(const StateShapes& state, const std::string& name) {
  const auto found = state.find(name);
  DETFORGE_CHECK(found != state.end(), fmt::format("there is no {}", name),
                 "give the complete state of the network");
  return found->second;
}

void check_vector(const StateShapes& state, const std::string& name, std::int64_t channels) {
  DETFORGE_CHECK(
      shape_of(state, name) == std::vector<std::int64_t>{channels},
      fmt::format("{} has shape [{}], not [{}]", name, fmt::join(state.at(name), ", "), channels),
      "give the complete state of the network");
}

DarknetConvolution convolution(const StateShapes& state,
                               const std::string& conv,
                               const std::string& norm) {
  DarknetConvolution result{.conv = conv,
                            .norm = state.count(norm + ".weight") != 0 ? norm : "",
                            .weight_shape = shape_of(state, conv + ".weight"),
                            .place = conv};
  const auto& shape = result.weight_shape;
  DETFORGE_CHECK(shape.size() == 4 && *std::min_element(shape.begin(), shape.end()) > 0,
                 fmt::format("{}.weight has shape [{}], not that of a convolution", conv,
                             fmt::join(shape, ", ")),
                 "give the state of a Darknet network");
  if (result.norm.empty()) {
    check_vector(state, conv + ".bias", shape[0]);
  } else {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      check_vector(state, norm + part, shape[0]);
    }
  }
  return result;
}

/// "layers.12.conv.weight" -> 12; -1 for other names.
std::int64_t layer_number(std::string_view name) {
  constexpr std::string_view kStart = "layers.", kEnd = ".conv.weight";
  if (name.size() <= kStart.size() + kEnd.size() || !name.starts_with(kStart) ||
      !name.ends_with(kEnd)) {
    return -1;
  }
  name.remove_prefix(kStart.size());
  name.remove_suffix(kEnd.size());
  std::int64_t number = -1;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && stop == name.data() + name.size() ? number : -1;
}

std::vector<DarknetConvolution> cfg_order(const StateShapes& state) {
  std::set<std::int64_t> numbers;
  for (const auto& [name, shape] : state) {
    if (const std::int64_t number = layer_number(name); number >= 0) {
      numbers.insert(number);
    }
  }
  std::vector<DarknetConvolution> order;
  for (const std::int64_t number : numbers) {
    const std::string layer = fmt::format("layers.{}", number);
    order.push_back(convolution(state, layer + ".conv", layer + ".bn"));
  }
  return order;
}

/// The modules of mmdetection's YOLOv3, one after the other as yolov3.cfg has their layers.
class YoloV3Order {
 public:
  explicit YoloV3Order(const StateShapes& state) : state_(state) {}

  std::vector<DarknetConvolution> take() {
    add_module("backbone.conv1");
    for (int stage = 1; has(fmt::format("backbone.conv_res_block{}.conv", stage)); ++stage) {
      add_stage(fmt::format("backbone.conv_res_block{}", stage));
    }
    if (has("neck.detect1.conv1")) {
      for (int scale = 0; has(fmt::format("neck.detect{}.conv1", scale + 1)); ++scale) {
        add_scale(scale);
      }
    }
    return std::move(order_);
  }

 private:
  bool has(const std::string& module) const { return state_.count(module + ".conv.weight") != 0; }

  /// mmcv's ConvModule: conv and bn.
  void add_module(const std::string& name) {
    order_.push_back(convolution(state_, name + ".conv", name + ".bn"));
  }

  void add_stage(const std::string& stage) {
    add_module(stage + ".conv");
    for (int block = 0; has(fmt::format("{}.res{}.conv1", stage, block)); ++block) {
      add_module(fmt::format("{}.res{}.conv1", stage, block));
      add_module(fmt::format("{}.res{}.conv2", stage, block));
    }
  }

  /// The way from the coarser scale, five convolutions, the head.
  void add_scale(int scale) {
    if (scale > 0) {
      add_module(fmt::format("neck.conv{}", scale));
    }
    for (int i = 1; i <= 5; ++i) {
      add_module(fmt::format("neck.detect{}.conv{}", scale + 1, i));
    }
    add_module(fmt::format("bbox_head.convs_bridge.{}", scale));
    order_.push_back(convolution(state_, fmt::format("bbox_head.convs_pred.{}", scale), ""));
  }

  const StateShapes& state_;
  std::vector<DarknetConvolution> order_;
};

}  // namespace

std::int64_t DarknetConvolution::values() const {
  const std::int64_t vectors = norm.empty() ? 1 : 4;
  return std::accumulate(weight_shape.begin(), weight_shape.end(), std::int64_t{1},
                         std::multiplies<>()) +
         vectors * weight_shape.front();
}

std::vector<DarknetConvolution> darknet_order(const StateShapes& state) {
  if (state.count("backbone.conv_res_block1.conv.conv.weight") != 0) {
    return YoloV3Order(state).take();
  }
  return cfg_order(state);
}

}  // namespace detforge
