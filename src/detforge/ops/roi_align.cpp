#include "detforge/ops/roi_align.h"

#include <string>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/roi_align_kernel.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::MemoryFormat layout_of(const Tensor& features) {
  const bool nhwc =
      !features.is_contiguous() && features.is_contiguous(at::MemoryFormat::ChannelsLast);
  return nhwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

cpu::RoiAlignShape make_shape(at::IntArrayRef features,
                              const Tensor& rois,
                              at::MemoryFormat layout,
                              const RoiAlignOptions& options) {
  return {.geometry = {.height = features[2],
                       .width = features[3],
                       .bins_y = options.output_size.height,
                       .bins_x = options.output_size.width,
                       .spatial_scale = static_cast<float>(options.spatial_scale),
                       .sampling_ratio = options.sampling_ratio,
                       .aligned = options.aligned},
          .images = features[0],
          .channels = features[1],
          .roi_count = rois.size(0),
          .layout = layout == at::MemoryFormat::ChannelsLast ? cpu::MapLayout::kNhwc
                                                             : cpu::MapLayout::kNchw};
}

/// Keeps the ROIs and the shape for backward; the features are not needed there.
class RoiAlignFunction : public torch::autograd::Function<RoiAlignFunction> {
 public:
  static Tensor forward(AutogradContext* ctx,
                        const Tensor& features,
                        const Tensor& rois,
                        const RoiAlignOptions& options) {
    const at::MemoryFormat layout = layout_of(features);
    const Tensor input = features.contiguous(layout);
    const cpu::RoiAlignShape shape = make_shape(input.sizes(), rois, layout, options);
    Tensor pooled = at::empty(
        {rois.size(0), input.size(1), options.output_size.height, options.output_size.width},
        input.options(), layout);
    cpu::roi_align_forward(shape, input.data_ptr<float>(), rois.data_ptr<float>(),
                           pooled.data_ptr<float>());
    ctx->save_for_backward({rois});
    ctx->saved_data["features"] = input.sizes();
    ctx->saved_data["layout"] = static_cast<std::int64_t>(layout);
    ctx->saved_data["output_size"] =
        std::vector<std::int64_t>{options.output_size.height, options.output_size.width};
    ctx->saved_data["spatial_scale"] = options.spatial_scale;
    ctx->saved_data["sampling_ratio"] = static_cast<std::int64_t>(options.sampling_ratio);
    ctx->saved_data["aligned"] = options.aligned;
    return pooled;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Tensor rois = ctx->get_saved_variables()[0];
    const std::vector<std::int64_t> features = ctx->saved_data["features"].toIntVector();
    const auto layout = static_cast<at::MemoryFormat>(ctx->saved_data["layout"].toInt());
    const std::vector<std::int64_t> output_size = ctx->saved_data["output_size"].toIntVector();
    const RoiAlignOptions options{
        .output_size = {output_size[0], output_size[1]},
        .spatial_scale = ctx->saved_data["spatial_scale"].toDouble(),
        .sampling_ratio = static_cast<int>(ctx->saved_data["sampling_ratio"].toInt()),
        .aligned = ctx->saved_data["aligned"].toBool()};
    const Tensor grad_pooled = grads[0].contiguous(layout);
    Tensor grad_features = at::empty(features, grad_pooled.options(), layout).zero_();
    cpu::roi_align_backward(make_shape(features, rois, layout, options),
                            grad_pooled.data_ptr<float>(), rois.data_ptr<float>(),
                            grad_features.data_ptr<float>());
    return {grad_features, Tensor(), Tensor()};
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

}  // namespace

Tensor roi_align(const Tensor& features, const Tensor& rois, const RoiAlignOptions& options) {
  check_options(options);
  DETFORGE_CHECK(
      features.dim() == 4 && features.scalar_type() == torch::kFloat && features.is_cpu(),
      "roi_align needs f32 features [N,C,H,W] on the CPU", "convert the features first");
  DETFORGE_CHECK(features.size(2) > 0 && features.size(3) > 0,
                 "roi_align got a feature map without cells",
                 "the image is smaller than the stride: enlarge or pad it");
  DETFORGE_CHECK(
      rois.dim() == 2 && rois.size(1) == 5 && rois.scalar_type() == torch::kFloat && rois.is_cpu(),
      "roi_align needs f32 rois [R,5] on the CPU: batch index, x1, y1, x2, y2",
      "put the index of the image in front of each box");
  const Tensor rois_contiguous = rois.detach().contiguous();
  check_rois(rois_contiguous, features.size(0));
  return RoiAlignFunction::apply(features, rois_contiguous, options);
}

}  // namespace detforge
