#include "detforge/models/darknet/darknet_shapes.h"

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

// Bounds that no real network comes near, so that products of them fit 64 bits.
constexpr std::int64_t kMostChannels = std::int64_t{1} << 24;
constexpr std::int64_t kMostCells = std::int64_t{1} << 20;    // along one side
constexpr std::int64_t kMostWeights = std::int64_t{1} << 32;  // of one layer

std::string text(const DarknetShape& shape) {
  return fmt::format("{} channels of {}x{}", shape.channels, shape.height, shape.width);
}

/// Cells of a window of `size` that moves by `stride` over `in` cells and `padding` more.
std::int64_t window_count(std::int64_t in,
                          std::int64_t padding,
                          std::int64_t size,
                          std::int64_t stride) {
  DETFORGE_CHECK(in + padding >= size,
                 fmt::format("a window of {} does not fit into {} cells", size, in + padding),
                 "make the network input larger, or the window smaller");
  return (in + padding - size) / stride + 1;
}

/// Shapes of one layer: what each kind makes of its input.
class ShapeRule {
 public:
  ShapeRule(const DarknetCfg& cfg, std::size_t index, const DarknetShape& in)
      : cfg_(cfg), index_(index), in_(in) {}

  DarknetShape operator()(const ConvolutionalSpec& spec) const {
    DETFORGE_CHECK(in_.channels % spec.groups == 0 && spec.filters % spec.groups == 0,
                   fmt::format("{} groups do not divide {} input channels and {} filters",
                               spec.groups, in_.channels, spec.filters),
                   "change groups or filters");
    DETFORGE_CHECK(
        spec.filters <= kMostWeights / (in_.channels / spec.groups) / spec.size / spec.size,
        fmt::format("{} filters over {} channels are more weights than any machine holds",
                    spec.filters, in_.channels),
        "correct filters and size");
    return {spec.filters, window_count(in_.height, 2 * spec.padding, spec.size, spec.stride),
            window_count(in_.width, 2 * spec.padding, spec.size, spec.stride)};
  }

  DarknetShape operator()(const ShortcutSpec& spec) const {
    const DarknetShape& other = cfg_.layers[spec.from].out;
    DETFORGE_CHECK(other == in_,
                   fmt::format("it adds {} (layer {}) to {} (layer {})", text(other), spec.from,
                               text(in_), index_ - 1),
                   "name a layer of the same size in from");
    return in_;
  }

  DarknetShape operator()(const RouteSpec& spec) const {
    DarknetShape out = in_;
    out.channels = 0;
    for (const std::size_t layer : spec.layers) {
      const DarknetShape& other = cfg_.layers[layer].out;
      DETFORGE_CHECK(other.height == in_.height && other.width == in_.width,
                     fmt::format("it joins {} (layer {}) and {} (layer {})", text(in_),
                                 spec.layers.front(), text(other), layer),
                     "join layers of one height and width");
      DETFORGE_CHECK(other.channels % spec.groups == 0,
                     fmt::format("{} groups do not divide the {} channels of layer {}", spec.groups,
                                 other.channels, layer),
                     "change groups");
      out.channels += other.channels / spec.groups;
    }
    return out;
  }

  DarknetShape operator()(const UpsampleSpec& spec) const {
    return {in_.channels, in_.height * spec.stride, in_.width * spec.stride};
  }

  DarknetShape operator()(const MaxpoolSpec& spec) const {
    DETFORGE_CHECK((spec.padding + 1) / 2 < spec.size,
                   fmt::format("padding {} makes windows of size {} that see no pixel",
                               spec.padding, spec.size),
                   "leave padding out");
    return {in_.channels, window_count(in_.height, spec.padding, spec.size, spec.stride),
            window_count(in_.width, spec.padding, spec.size, spec.stride)};
  }

  DarknetShape operator()(const DropoutSpec&) const { return in_; }

  DarknetShape operator()(const YoloSpec& spec) const {
    const auto masks = static_cast<std::int64_t>(spec.anchors.size());
    const std::int64_t wanted = masks * (5 + spec.classes);
    const bool has_before = index_ > 0;
    DETFORGE_CHECK(in_.channels == wanted,
                   fmt::format("the layer before has {} filters, {} masks * (5 + {} classes) = {}",
                               in_.channels, masks, spec.classes, wanted),
                   has_before ? fmt::format("set filters={} in {}, or correct classes and mask",
                                            wanted, darknet_layer_place(cfg_, index_ - 1))
                              : "put a [convolutional] before it");
    DETFORGE_CHECK(cfg_.height % in_.height == 0 && cfg_.width % in_.width == 0 &&
                       cfg_.height / in_.height == cfg_.width / in_.width,
                   fmt::format("its map is {}x{} of an input of {}x{}: no whole stride", in_.height,
                               in_.width, cfg_.height, cfg_.width),
                   "make height and width multiples of 32, and pad every [convolutional]");
    return in_;
  }

 private:
  const DarknetCfg& cfg_;
  std::size_t index_;
  const DarknetShape& in_;
};

DarknetShape input_shape(const DarknetCfg& cfg, const std::vector<std::size_t>& inputs) {
  return inputs.empty() ? DarknetShape{3, cfg.height, cfg.width} : cfg.layers[inputs.front()].out;
}

void check_bounds(const DarknetShape& shape) {
  DETFORGE_CHECK(
      shape.channels <= kMostChannels && shape.height <= kMostCells && shape.width <= kMostCells,
      fmt::format("its output of {} is larger than anything DetForge builds", text(shape)),
      "correct the sizes of this layer and those before it");
}

}  // namespace

std::vector<std::size_t> darknet_inputs(const DarknetCfg& cfg, std::size_t index) {
  const auto& spec = cfg.layers[index].spec;
  if (const auto* route = std::get_if<RouteSpec>(&spec)) {
    return route->layers;
  }
  if (index == 0) {
    return {};
  }
  std::vector<std::size_t> inputs = {index - 1};
  if (const auto* shortcut = std::get_if<ShortcutSpec>(&spec)) {
    inputs.push_back(shortcut->from);
  }
  return inputs;
}

void infer_darknet_shape(DarknetCfg& cfg, std::size_t index) {
  DarknetLayer& layer = cfg.layers[index];
  const std::vector<std::size_t> inputs = darknet_inputs(cfg, index);
  for (const std::size_t input : inputs) {
    DETFORGE_CHECK(!std::holds_alternative<YoloSpec>(cfg.layers[input].spec),
                   fmt::format("it reads the output of the [yolo] in layer {}", input),
                   "begin the next branch with a [route]");
  }
  layer.in = input_shape(cfg, inputs);
  layer.out = std::visit(ShapeRule(cfg, index, layer.in), layer.spec);
  check_bounds(layer.out);
  if (auto* yolo = std::get_if<YoloSpec>(&layer.spec)) {
    yolo->stride = cfg.height / layer.in.height;
  }
}

void check_darknet_outputs(const DarknetCfg& cfg) {
  const YoloSpec* first = nullptr;
  std::vector<bool> is_used(cfg.layers.size(), false);
  for (std::size_t i = cfg.layers.size(); i-- > 0;) {
    const auto* yolo = std::get_if<YoloSpec>(&cfg.layers[i].spec);
    if (yolo == nullptr && !is_used[i]) {
      throw Error("its output leads to no [yolo]", "remove the layer, or put a [yolo] behind it")
          .at(__FILE__, __LINE__)
          .add_where(darknet_layer_place(cfg, i));
    }
    for (const std::size_t input : darknet_inputs(cfg, i)) {
      is_used[input] = true;
    }
    first = yolo != nullptr && first == nullptr ? yolo : first;
    if (yolo != nullptr &&
        (yolo->classes != first->classes || yolo->ignore_thresh != first->ignore_thresh)) {
      throw Error(
          fmt::format("classes={} and ignore_thresh={} here, {} and {} in a later [yolo]",
                      yolo->classes, yolo->ignore_thresh, first->classes, first->ignore_thresh),
          "give all [yolo] the same")
          .at(__FILE__, __LINE__)
          .add_where(darknet_layer_place(cfg, i));
    }
  }
  DETFORGE_CHECK(first != nullptr, "the network has no layer", "give it layers and a [yolo]");
}

}  // namespace detforge
