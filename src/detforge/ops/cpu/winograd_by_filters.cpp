#include "detforge/ops/cpu/winograd_by_filters.h"

#include <algorithm>
#include <omp.h>

#include "detforge/ops/cpu/winograd_gradient_values.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kGradientOutputs = 64;  // a panel's sums for so many stay in the L2 cache

/// One panel of output channels: its filters, a part of the input channels at a time, and its sums.
class FilterPanel {
 public:
  FilterPanel(const ConvKernels& k, const WinogradConv& conv, const float* inputs)
      : k_(k),
        conv_(conv),
        grid_(conv.shape),
        inputs_(inputs),
        filter_point_(std::min(kFilterDepth, conv.shape.channels) * k.tile_columns + kPad),
        sum_point_(grid_.count() * k.tile_columns + kPad) {}

  /// Of inputs: [point][tile][channel].
  static std::int64_t input_stride(const WinogradConv& conv) { return conv.shape.channels + kPad; }
  static std::int64_t input_point(const WinogradConv& conv) {
    return TileGrid(conv.shape).count() * input_stride(conv) + kPad;
  }

  std::int64_t floats() const { return kPoints * (filter_point_ + sum_point_) + kPad; }
  void use(float* memory) {
    filters_ = memory;
    sums_ = memory + kPoints * filter_point_;
  }

  void run(std::int64_t panel) const {
    const Range outputs{panel * k_.tile_columns,
                        std::min((panel + 1) * k_.tile_columns, conv_.outputs)};
    for (std::int64_t c = 0; c < conv_.shape.channels; c += kFilterDepth) {
      const Range inputs{c, std::min(c + kFilterDepth, conv_.shape.channels)};
      transform_filters(outputs, inputs);
      multiply(inputs);
    }
    for (std::int64_t t = 0; t < grid_.count(); ++t) {
      k_.winograd_output(sums_ + t * k_.tile_columns,
                         {.point_stride = sum_point_, .panel_stride = 0}, grid_.tile(t),
                         output_shape(conv_), {outputs.first, outputs.end}, conv_.epilogue,
                         conv_.output);
    }
  }

 private:
  void transform_filters(const Range& outputs, const Range& inputs) const {
    FilterView filters = conv_.filters;
    filters.data += inputs.first * filters.input_stride;
    for (std::int64_t o = outputs.first; o < outputs.end; o += k_.lanes) {
      k_.winograd_filter(filters, o, inputs.size(), filter_point_, filters_ + o - outputs.first);
    }
  }

  void multiply(const Range& inputs) const {
    for (std::int64_t point = 0; point < kPoints; ++point) {
      k_.multiply({.rows = grid_.count(),
                   .depth = inputs.size(),
                   .a = inputs_ + point * input_point(conv_) + inputs.first,
                   .a_stride = input_stride(conv_),
                   .b = filters_ + point * filter_point_,
                   .c = sums_ + point * sum_point_,
                   .c_stride = k_.tile_columns,
                   .accumulate = inputs.first > 0});
    }
  }

  const ConvKernels& k_;
  const WinogradConv& conv_;
  TileGrid grid_;
  const float* inputs_;
  std::int64_t filter_point_, sum_point_;
  float *filters_ = nullptr, *sums_ = nullptr;
};

}  // namespace

void winograd_by_filters(const ConvKernels& k,
                         const WinogradConv& conv,
                         const Workspace& workspace) {
  const TileGrid grid(conv.shape);
  const std::int64_t stride = FilterPanel::input_stride(conv);
  const std::int64_t point = FilterPanel::input_point(conv);
  float* inputs = workspace(kPoints * point);
  const FilterPanel layout(k, conv, inputs);
  float* memory = workspace(layout.floats() * omp_get_max_threads());
#pragma omp parallel
  {
    FilterPanel panel = layout;
    panel.use(memory + layout.floats() * omp_get_thread_num());
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < grid.count(); ++t) {
      k.winograd_input(conv.input, conv.shape, grid.tile(t),
                       {.point_stride = point, .panel_stride = k.tile_columns},
                       inputs + t * stride);
    }
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < ceil_div(conv.outputs, k.tile_columns); ++p) {
      panel.run(p);
    }
  }
}

std::int64_t gradient_parts(const ConvKernels& k, const WinogradGradient& conv) {
  return ceil_div(conv.outputs, kGradientOutputs) * ceil_div(conv.shape.channels, k.tile_columns);
}

void winograd_gradient_by_filters(const ConvKernels& k,
                                  const WinogradGradient& conv,
                                  const Workspace& workspace) {
  const std::int64_t tiles = TileGrid(conv.shape).count(), inputs = conv.shape.channels;
  const std::int64_t panels = ceil_div(inputs, k.tile_columns);
  const GradientValues values(k, conv, tiles, workspace);
  const std::int64_t sum_point = kGradientOutputs * k.tile_columns + kPad;
  float* memory = workspace(kPoints * sum_point * omp_get_max_threads());
#pragma omp parallel
  {
    float* sums = memory + kPoints * sum_point * omp_get_thread_num();
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < tiles; ++t) {
      values.transform(t, t);
    }
#pragma omp for schedule(static)
    for (std::int64_t part = 0; part < gradient_parts(k, conv); ++part) {
      const Range rows = part_of(conv.outputs, part / panels, gradient_parts(k, conv) / panels);
      const std::int64_t panel = part % panels, c = panel * k.tile_columns;
      for (std::int64_t point = 0; point < kPoints; ++point) {
        PanelProduct product = values.product(point, rows, panel, tiles);
        product.c = sums + point * sum_point;
        product.c_stride = k.tile_columns;
        k.multiply_transposed(product);
      }
      for (std::int64_t o = rows.first; o < rows.end; ++o) {
        k.winograd_filter_gradient(sums + (o - rows.first) * k.tile_columns, sum_point,
                                   std::min(k.tile_columns, inputs - c),
                                   conv.gradient + (o * inputs + c) * 9);
      }
    }
  }
}

}  // namespace detforge::cpu
