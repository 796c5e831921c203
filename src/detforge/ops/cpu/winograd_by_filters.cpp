#include "detforge/ops/cpu/winograd_by_filters.h"

#include <algorithm>
#include <omp.h>

#include "detforge/ops/cpu/winograd_tiles.h"

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
        filter_point_(kDepth * k.tile_columns + kPad),
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
    for (std::int64_t c = 0; c < conv_.shape.channels; c += kDepth) {
      const Range inputs{c, std::min(c + kDepth, conv_.shape.channels)};
      transform_filters(outputs, inputs);
      multiply(inputs);
    }
    for (std::int64_t t = 0; t < grid_.count(); ++t) {
      k_.winograd_output(sums_ + t * k_.tile_columns,
                         {.point_stride = sum_point_, .panel_stride = 0}, grid_.tile(t),
                         output_shape(conv_), outputs, conv_.epilogue, conv_.output);
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

void winograd_gradient_by_filters(const ConvKernels& k,
                                  const float* input,
                                  const MapShape& shape,
                                  const float* grad_output,
                                  std::int64_t outputs,
                                  float* gradient,
                                  const Workspace& workspace) {
  const TileGrid grid(shape);
  const std::int64_t tiles = grid.count(), inputs = shape.channels;
  const std::int64_t panels = ceil_div(inputs, k.tile_columns);
  const std::int64_t parts = ceil_div(outputs, kGradientOutputs);
  // Values of the input [point][panel][tile][tile_columns], of the gradient [point][tile][output].
  const WinogradLayout in{.point_stride = panels * tiles * k.tile_columns + kPad,
                          .panel_stride = tiles * k.tile_columns};
  const std::int64_t out_stride = outputs + kPad;
  const WinogradLayout out{.point_stride = tiles * out_stride + kPad,
                           .panel_stride = k.tile_columns};
  const std::int64_t sum_point = kGradientOutputs * k.tile_columns + kPad;
  float* in_values = workspace(kPoints * in.point_stride);
  float* out_values = workspace(kPoints * out.point_stride);
  float* memory = workspace(kPoints * sum_point * omp_get_max_threads());
  MapShape out_shape = shape;
  out_shape.channels = outputs;
#pragma omp parallel
  {
    float* sums = memory + kPoints * sum_point * omp_get_thread_num();
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < tiles; ++t) {
      k.winograd_input(input, shape, grid.tile(t), in, in_values + t * k.tile_columns);
      k.winograd_output_gradient(grad_output, out_shape, grid.tile(t), out,
                                 out_values + t * out_stride);
    }
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < parts * panels; ++p) {
      const Range rows = part_of(outputs, p / panels, parts);
      const std::int64_t panel = p % panels, c = panel * k.tile_columns;
      for (std::int64_t point = 0; point < kPoints; ++point) {
        k.multiply_transposed({.rows = rows.size(),
                               .depth = tiles,
                               .a = out_values + point * out.point_stride + rows.first,
                               .a_stride = out_stride,
                               .b = in_values + point * in.point_stride + panel * in.panel_stride,
                               .c = sums + point * sum_point,
                               .c_stride = k.tile_columns});
      }
      for (std::int64_t o = rows.first; o < rows.end; ++o) {
        k.winograd_filter_gradient(sums + (o - rows.first) * k.tile_columns, sum_point,
                                   std::min(k.tile_columns, inputs - c),
                                   gradient + (o * inputs + c) * 9);
      }
    }
  }
}

}  // namespace detforge::cpu
