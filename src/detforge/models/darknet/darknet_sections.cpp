#include "detforge/models/darknet/darknet_sections.h"

#include <numeric>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/nearest_name.h"

namespace detforge {
namespace {

constexpr CfgReader::Range kFilters{1, 1 << 20};
constexpr CfgReader::Range kKernel{1, 255};
constexpr CfgReader::Range kStride{1, 64};
constexpr CfgReader::Range kInput{1, 1 << 15};
constexpr CfgReader::Range kLayer{-1e6, 1e6};

/// Of [net]: what the recipe decides (batches, schedule, augmentation), and Darknet's own workings.
constexpr std::string_view kOnlyForTraining =
    "batch subdivisions mini_batch learning_rate learning_rate_min momentum decay burn_in power "
    "policy steps scales step scale gamma max_batches adam B1 B2 eps angle saturation exposure hue "
    "aspect flip jitter max_crop min_crop crop mosaic mosaic_bound mixup cutmix blur letter_box "
    "gaussian_noise random resize resize_step ema_alpha label_smooth_eps max_chart_loss inputs "
    "optimized_memory workspace_size_limit_MB dynamic_minibatch show_receptive_field try_fix_nan "
    "loss_scale num_sigmas_reject_badlabels badlabels_rejection_percentage weights_reject_freq "
    "equidistant_point augment_speed sequential_subdivisions use_cuda_graph";

DarknetActivation read_activation(CfgReader& reader, std::optional<std::size_t> fallback) {
  return static_cast<DarknetActivation>(
      reader.one_of("activation", {"linear", "leaky", "relu", "mish"}, fallback));
}

/// Without `activation` Darknet takes logistic, which is not built: so it must be there.
ConvolutionalSpec read_convolutional(CfgReader& reader) {
  ConvolutionalSpec spec;
  spec.filters = reader.integer("filters", 1, kFilters);
  spec.size = reader.integer("size", 1, kKernel);
  spec.stride = reader.integer("stride", 1, kStride);
  spec.padding = reader.integer("padding", 0, {0, kKernel.high});
  if (reader.flag("pad")) {
    spec.padding = spec.size / 2;
  }
  spec.groups = reader.integer("groups", 1, kFilters);
  spec.batch_normalize = reader.flag("batch_normalize");
  spec.activation = read_activation(reader, std::nullopt);
  reader.leave_unused("learning_rate stopbackward clip");
  return spec;
}

/// A layer's absolute number from "-3" (counted back from here) or "61".
std::size_t resolve_layer(CfgReader& reader,
                          const std::string& key,
                          std::int64_t number,
                          std::size_t index) {
  const auto here = static_cast<std::int64_t>(index);
  const std::int64_t layer = number < 0 ? here + number : number;
  if (layer < 0 || layer >= here) {
    reader.fail(key,
                fmt::format("{} names layer {}{}, which is not before this one", key, layer,
                            number < 0 ? fmt::format(" ({} + {})", here, number) : ""),
                here == 0 ? "begin with a [convolutional]"
                          : fmt::format("name a layer from 0 to {}, or -1 to -{}", here - 1, here));
  }
  return static_cast<std::size_t>(layer);
}

ShortcutSpec read_shortcut(CfgReader& reader, std::size_t index) {
  const std::int64_t from = reader.integer("from", std::nullopt, kLayer);
  return {.from = resolve_layer(reader, "from", from, index),
          .activation = read_activation(reader, 0)};
}

RouteSpec read_route(CfgReader& reader, std::size_t index) {
  RouteSpec spec;
  for (const std::int64_t number : reader.integers("layers", kLayer)) {
    spec.layers.push_back(resolve_layer(reader, "layers", number, index));
  }
  if (spec.layers.empty()) {
    reader.fail("layers", "layers is missing or empty", "name the layers whose channels to join");
  }
  spec.groups = reader.integer("groups", 1, kFilters);
  spec.group = reader.integer("group_id", 0, {0, static_cast<double>(spec.groups - 1)});
  return spec;
}

MaxpoolSpec read_maxpool(CfgReader& reader) {
  MaxpoolSpec spec;
  spec.stride = reader.integer("stride", 1, kStride);
  spec.size = reader.integer("size", spec.stride, kKernel);
  spec.padding = reader.integer("padding", spec.size - 1, {0, kKernel.high});
  return spec;
}

/// The anchors of `mask`, or all without a mask.
std::vector<std::array<double, 2>> read_anchors(CfgReader& reader) {
  const std::vector<double> values = reader.numbers("anchors", {1e-3, 1e6});
  const auto count = static_cast<std::int64_t>(values.size() / 2);
  const std::int64_t num = reader.integer("num", count, {1, 1e6});
  if (values.empty() || values.size() % 2 != 0 || num != count) {
    reader.fail("anchors", fmt::format("anchors are {} numbers, num is {}", values.size(), num),
                "give width,height of each of num anchors");
  }
  std::vector<std::int64_t> mask = reader.integers("mask", {0, static_cast<double>(count - 1)});
  if (mask.empty()) {
    mask.resize(values.size() / 2);
    std::iota(mask.begin(), mask.end(), std::int64_t{0});
  }
  std::vector<std::array<double, 2>> anchors;
  for (const std::int64_t i : mask) {
    const auto at = static_cast<std::size_t>(2 * i);
    anchors.push_back({values[at], values[at + 1]});
  }
  return anchors;
}

YoloSpec read_yolo(CfgReader& reader) {
  YoloSpec spec;
  spec.anchors = read_anchors(reader);
  spec.classes = reader.integer("classes", std::nullopt, {1, 1e5});
  spec.ignore_thresh = reader.number("ignore_thresh", 0.5, {0, 1});
  spec.scale_x_y = reader.number("scale_x_y", 1.0, {1, 10});
  reader.integer("new_coords", 0, {0, 0});  // 1 is another meaning of the map, which is not built
  reader.leave_unused(
      "truth_thresh jitter random resize max map iou_thresh iou_thresh_kind iou_loss "
      "iou_normalizer cls_normalizer obj_normalizer delta_normalizer max_delta focal_loss nms_kind "
      "beta_nms label_smooth_eps absolute objectness_smooth counters_per_class show_details");
  return spec;
}

using Spec = decltype(DarknetLayer::spec);

Spec read_spec(const CfgSection& section, std::size_t index, CfgReader& reader) {
  const std::string& kind = section.kind;
  if (kind == "convolutional" || kind == "conv") {
    return read_convolutional(reader);
  }
  if (kind == "shortcut") {
    return read_shortcut(reader, index);
  }
  if (kind == "route") {
    return read_route(reader, index);
  }
  if (kind == "upsample") {
    return UpsampleSpec{reader.integer("stride", 2, kStride)};
  }
  if (kind == "maxpool" || kind == "max") {
    return read_maxpool(reader);
  }
  if (kind == "dropout") {
    return DropoutSpec{reader.number("probability", 0.5, {0, 0.999})};
  }
  if (kind == "yolo") {
    return read_yolo(reader);
  }
  const std::string near = nearest_name(
      kind, {"convolutional", "shortcut", "route", "upsample", "maxpool", "dropout", "yolo"});
  reader.fail("",
              kind == "net" || kind == "network"
                  ? fmt::format("[{}] stands here a second time", kind)
                  : fmt::format("[{}] is no layer that DetForge builds", kind),
              near.empty() ? "the layers are convolutional, shortcut, route, upsample, maxpool, "
                             "dropout and yolo"
                           : fmt::format("did you mean [{}]?", near));
}

}  // namespace

DarknetLayer read_darknet_layer(const CfgSection& section, std::size_t index, CfgReader& reader) {
  DarknetLayer layer{.kind = section.kind,
                     .line = section.line,
                     .spec = read_spec(section, index, reader),
                     .in = {},
                     .out = {}};
  reader.finish();
  return layer;
}

DarknetShape read_darknet_net(CfgReader& reader) {
  DarknetShape input;
  input.channels = reader.integer("channels", 3, kInput);
  if (input.channels != 3) {
    reader.fail("channels", fmt::format("channels is {}: images have 3", input.channels),
                "set channels=3");
  }
  input.height = reader.integer("height", std::nullopt, kInput);
  input.width = reader.integer("width", std::nullopt, kInput);
  reader.leave_unused(kOnlyForTraining);
  reader.finish();
  return input;
}

}  // namespace detforge
