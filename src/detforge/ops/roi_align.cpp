#include "detforge/ops/roi_align.h"

#include <algorithm>
#include <string>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/conversion_log.h"
#include "detforge/ops/cpu/roi_align_kernel.h"
#include "detforge/ops/layout.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::MapLayout kernel_layout(at::MemoryFormat layout) {
  return layout == at::MemoryFormat::ChannelsLast ? cpu::MapLayout::kNhwc : cpu::MapLayout::kNchw;
}

/// What forward and backward share, but for the ROIs.
struct Call {
  std::vector<std::vector<std::int64_t>> map_sizes;
  std::vector<double> spatial_scales;
  at::MemoryFormat layout;
  RoiAlignOptions options;

  cpu::RoiAlignShape shape(const Tensor& rois) const {
    cpu::RoiAlignShape shape{.levels = {},
                             .images = map_sizes[0][0],
                             .channels = map_sizes[0][1],
                             .roi_count = rois.size(0),
                             .maps = kernel_layout(layout),
                             .pooled = kernel_layout(pooled_layout())};
    for (std::size_t level = 0; level < map_sizes.size(); ++level) {
      shape.levels.push_back({.height = map_sizes[level][2],
                              .width = map_sizes[level][3],
                              .bins_y = options.output_size.height,
                              .bins_x = options.output_size.width,
                              .spatial_scale = static_cast<float>(spatial_scales[level]),
                              .sampling_ratio = options.sampling_ratio,
                              .aligned = options.aligned});
    }
    return shape;
  }
  at::MemoryFormat pooled_layout() const {
    return options.contiguous ? at::MemoryFormat::Contiguous : layout;
  }
  std::vector<std::int64_t> pooled_size(const Tensor& rois) const {
    return {rois.size(0), map_sizes[0][1], options.output_size.height, options.output_size.width};
  }
};

/// For the context of an autograd function, which keeps tensors and shared objects.
struct CallHolder : torch::CustomClassHolder {
  explicit CallHolder(Call value) : call(std::move(value)) {}
  Call call;
};

cpu::RoiList roi_list(const Tensor& rois, const Tensor& levels) {
  return {rois.data_ptr<float>(), levels.data_ptr<std::int64_t>()};
}

/// Keeps the ROIs and the shapes for backward; the features are not needed there.
class RoiAlignFunction : public torch::autograd::Function<RoiAlignFunction> {
 public:
  static Tensor forward(AutogradContext* ctx,
                        at::TensorList maps,
                        const Tensor& rois,
                        const Tensor& levels,
                        const Call& call) {
    std::vector<Tensor> inputs;
    std::vector<cpu::ConstMap> data;
    for (const Tensor& map : maps) {
      inputs.push_back(map.contiguous(call.layout));
      data.push_back(const_map(inputs.back()));
    }
    Tensor pooled =
        at::empty(call.pooled_size(rois), inputs.front().options(), call.pooled_layout());
    cpu::roi_align_forward(call.shape(rois), data, roi_list(rois, levels), map_of(pooled));
    ctx->save_for_backward({rois, levels});
    ctx->saved_data["call"] = c10::IValue::make_capsule(c10::make_intrusive<CallHolder>(call));
    return pooled;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto holder = ctx->saved_data["call"].toCapsule();
    const Call& call = static_cast<const CallHolder&>(*holder).call;
    const cpu::RoiAlignShape shape = call.shape(saved[0]);
    const Tensor grad_pooled = in_layout_of_maps(call, shape, widen(grads[0]));
    variable_list results;
    std::vector<cpu::Map> data;
    for (const auto& size : call.map_sizes) {
      results.push_back(at::empty(size, grads[0].options(), call.layout));
      data.push_back(map_of(results.back()));
    }
    cpu::roi_align_backward(shape, grad_pooled.data_ptr<float>(), roi_list(saved[0], saved[1]),
                            data);
    results.resize(results.size() + 3);  // ROIs, their levels and the call have no gradient
    return results;
  }

 private:
  static Tensor in_layout_of_maps(const Call& call,
                                  const cpu::RoiAlignShape& shape,
                                  const Tensor& grad_pooled) {
    if (call.layout == call.pooled_layout() || grad_pooled.is_contiguous(call.layout)) {
      return grad_pooled.contiguous(call.layout);
    }
    const Tensor rows = grad_pooled.contiguous();
    Tensor channels = at::empty(rows.sizes(), rows.options(), call.layout);
    cpu::roi_align_rows_to_channels(shape, rows.data_ptr<float>(), channels.data_ptr<float>());
    return channels;
  }
};

void check_options(const RoiAlignOptions& options) {
  DETFORGE_CHECK(options.output_size.height > 0 && options.output_size.width > 0,
                 "roi_align output size " + std::to_string(options.output_size.height) + " x " +
                     std::to_string(options.output_size.width) + " is not positive",
                 "use 7 for the box head, 14 for the mask head");
  DETFORGE_CHECK(
      options.sampling_ratio >= 0,
      "roi_align sampling ratio " + std::to_string(options.sampling_ratio) + " is negative",
      "use 0 for adaptive sampling");
}

void check_features(const std::vector<RoiAlignLevel>& pyramid) {
  DETFORGE_CHECK(!pyramid.empty(), "roi_align got no feature map", "pass at least one level");
  for (const auto& [features, scale] : pyramid) {
    DETFORGE_CHECK(
        features.dim() == 4 && features.is_cpu() &&
            (features.scalar_type() == torch::kFloat || is_half_type(features.scalar_type())),
        "roi_align needs f32, f16 or bf16 features [N,C,H,W] on the CPU",
        "convert the features first");
    DETFORGE_CHECK(features.size(2) > 0 && features.size(3) > 0,
                   "roi_align got a feature map without cells",
                   "the image is smaller than the stride: enlarge or pad it");
    DETFORGE_CHECK(features.size(0) == pyramid[0].features.size(0) &&
                       features.size(1) == pyramid[0].features.size(1) &&
                       features.scalar_type() == pyramid[0].features.scalar_type(),
                   "the levels given to roi_align differ in images, channels or type",
                   "pass the maps of one feature pyramid");
  }
}

void check_rois(const Tensor& rois, std::int64_t images) {
  const float* roi = rois.data_ptr<float>();
  for (std::int64_t r = 0; r < rois.size(0); ++r, roi += 5) {
    DETFORGE_CHECK(roi[0] >= 0.0F && roi[0] < static_cast<float>(images),
                   "roi " + std::to_string(r) + " has batch index " + std::to_string(roi[0]) +
                       " for a batch of " + std::to_string(images),
                   "number the images of the batch from 0");
    DETFORGE_CHECK(std::isfinite(roi[1]) && std::isfinite(roi[2]) && std::isfinite(roi[3]) &&
                       std::isfinite(roi[4]),
                   "roi " + std::to_string(r) + " is not finite",
                   "the model has diverged or its input is not finite: lower the learning rate");
  }
}

void check_levels(const Tensor& levels, std::int64_t rois, std::size_t count) {
  DETFORGE_CHECK(
      levels.dim() == 1 && levels.size(0) == rois && levels.scalar_type() == torch::kLong,
      "roi_align needs the level of each roi as i64 [R]", "pass one level per roi");
  const std::int64_t* level = levels.data_ptr<std::int64_t>();
  const bool exist = std::all_of(level, level + rois, [count](std::int64_t l) {
    return l >= 0 && l < static_cast<std::int64_t>(count);
  });
  DETFORGE_CHECK(exist, "a roi lies on a level outside the " + std::to_string(count) + " given",
                 "number the levels from 0");
}

at::MemoryFormat common_layout(const std::vector<RoiAlignLevel>& pyramid) {
  const bool nhwc = std::any_of(pyramid.begin(), pyramid.end(), [](const RoiAlignLevel& level) {
    return is_channels_last(level.features);
  });
  return nhwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

}  // namespace

Tensor roi_align(const Tensor& features, const Tensor& rois, const RoiAlignOptions& options) {
  const std::int64_t count = rois.dim() == 2 ? rois.size(0) : 0;  // the rest is checked there
  return roi_align_pyramid({{features, options.spatial_scale}}, rois,
                           torch::zeros({count}, torch::kLong), options);
}

Tensor roi_align_pyramid(const std::vector<RoiAlignLevel>& pyramid,
                         const Tensor& rois,
                         const Tensor& level_of_roi,
                         const RoiAlignOptions& options) {
  RECORD_FUNCTION("detforge::roi_align", {});
  check_options(options);
  check_features(pyramid);
  DETFORGE_CHECK(
      rois.dim() == 2 && rois.size(1) == 5 && rois.scalar_type() == torch::kFloat && rois.is_cpu(),
      "roi_align needs f32 rois [R,5] on the CPU: batch index, x1, y1, x2, y2",
      "put the index of the image in front of each box");
  const Tensor all_rois = rois.detach().contiguous();
  const Tensor levels = level_of_roi.contiguous();
  check_rois(all_rois, pyramid[0].features.size(0));
  check_levels(levels, rois.size(0), pyramid.size());
  Call call{
      .map_sizes = {}, .spatial_scales = {}, .layout = common_layout(pyramid), .options = options};
  std::vector<Tensor> maps;
  for (const auto& [features, scale] : pyramid) {
    maps.push_back(features);
    call.map_sizes.push_back(features.sizes().vec());
    call.spatial_scales.push_back(scale);
  }
  const at::ScalarType type = maps[0].scalar_type();
  if (is_half_type(type) &&
      (call.layout != at::MemoryFormat::ChannelsLast || !has_own_conversions(maps[0]))) {
    ConversionLog::add("roi_align");
    std::transform(maps.begin(), maps.end(), maps.begin(), widen);
    return to_map_type(RoiAlignFunction::apply(at::TensorList(maps), all_rois, levels, call), type);
  }
  return RoiAlignFunction::apply(at::TensorList(maps), all_rois, levels, call);
}

}  // namespace detforge
