#include "detforge/ops/cpu/winograd.h"

#include <algorithm>
#include <omp.h>

#include "detforge/ops/cpu/winograd_by_filters.h"
#include "detforge/ops/cpu/winograd_gradient_values.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kBlockTiles = 98;   // their values stay in the caches; a multiple of 14
constexpr std::int64_t kSharedBlocks = 4;  // at most so many in one that all threads share
constexpr std::int64_t kGradientBlockTiles = 160;

/// Filters in Winograd's domain: [point][panel][input][tile_columns].
struct Filters {
  const float* data = nullptr;
  std::int64_t point_stride = 0, panel_stride = 0;
};

/// A range of tiles with their values: inputs [point][tile][channel], sums
/// [point][output panel][tile][tile_columns].
class TileBlock {
 public:
  TileBlock(const ConvKernels& k, const WinogradConv& conv, std::int64_t capacity)
      : k_(k),
        conv_(conv),
        grid_(conv.shape),
        capacity_(capacity),
        panels_(ceil_div(conv.outputs, k.tile_columns)),
        input_stride_(conv.shape.channels + kPad),
        input_point_(capacity * input_stride_ + kPad),
        sum_panel_(capacity * k.tile_columns),
        sum_point_(panels_ * sum_panel_ + kPad) {}

  std::int64_t floats() const { return kPoints * (input_point_ + sum_point_); }
  std::int64_t products() const { return kPoints * panels_; }
  void use(float* memory) {
    inputs_ = memory;
    sums_ = memory + kPoints * input_point_;
  }
  void start(const Range& tiles) { range_ = tiles; }
  std::int64_t tiles() const { return range_.size(); }

  void transform_input(std::int64_t t) const {
    k_.winograd_input(conv_.input, conv_.shape, grid_.tile(range_.first + t),
                      {.point_stride = input_point_, .panel_stride = k_.tile_columns},
                      inputs_ + t * input_stride_);
  }

  /// One of `products()`: a point and a panel of output channels.
  void multiply(std::int64_t product, const Filters& filters) const {
    const std::int64_t point = product / panels_, panel = product % panels_;
    const std::int64_t channels = conv_.shape.channels;
    const float* b = filters.data + point * filters.point_stride + panel * filters.panel_stride;
    for (std::int64_t c = 0; c < channels; c += kFilterDepth) {
      k_.multiply({.rows = tiles(),
                   .depth = std::min(kFilterDepth, channels - c),
                   .a = inputs_ + point * input_point_ + c,
                   .a_stride = input_stride_,
                   .b = b + c * k_.tile_columns,
                   .c = sums_ + point * sum_point_ + panel * sum_panel_,
                   .c_stride = k_.tile_columns,
                   .accumulate = c > 0});
    }
  }

  void transform_output(std::int64_t t) const {
    k_.winograd_output(sums_ + t * k_.tile_columns,
                       {.point_stride = sum_point_, .panel_stride = sum_panel_},
                       grid_.tile(range_.first + t), output_shape(conv_),
                       {.first = 0, .end = conv_.outputs}, conv_.epilogue, conv_.output);
  }

 private:
  const ConvKernels& k_;
  const WinogradConv& conv_;
  TileGrid grid_;
  std::int64_t capacity_, panels_, input_stride_, input_point_, sum_panel_, sum_point_;
  Range range_;
  float *inputs_ = nullptr, *sums_ = nullptr;
};

Filters transform_filters(const ConvKernels& k,
                          const WinogradConv& conv,
                          const Workspace& workspace) {
  const std::int64_t panels = ceil_div(conv.outputs, k.tile_columns);
  const std::int64_t panel = conv.shape.channels * k.tile_columns, point = panels * panel + kPad;
  float* data = workspace(kPoints * point);
#pragma omp parallel for schedule(static)
  for (std::int64_t o = 0; o < conv.outputs; o += k.lanes) {
    k.winograd_filter(conv.filters, o, conv.shape.channels, point,
                      data + o / k.tile_columns * panel + o % k.tile_columns);
  }
  return {.data = data, .point_stride = point, .panel_stride = panel};
}

/// Every thread has blocks of its own: no waiting; each reads all filters once per block.
void convolve_apart(const ConvKernels& k,
                    const WinogradConv& conv,
                    std::int64_t blocks,
                    const Filters& filters,
                    const Workspace& workspace) {
  const std::int64_t tiles = TileGrid(conv.shape).count();
  const TileBlock layout(k, conv, ceil_div(tiles, blocks));
  const std::int64_t each = layout.floats() + kPad;
  float* memory = workspace(each * omp_get_max_threads());
#pragma omp parallel
  {
    TileBlock block = layout;
    block.use(memory + each * omp_get_thread_num());
#pragma omp for schedule(static)
    for (std::int64_t b = 0; b < blocks; ++b) {
      block.start(part_of(tiles, b, blocks));
      for (std::int64_t t = 0; t < block.tiles(); ++t) {
        block.transform_input(t);
      }
      for (std::int64_t p = 0; p < block.products(); ++p) {
        block.multiply(p, filters);
      }
      for (std::int64_t t = 0; t < block.tiles(); ++t) {
        block.transform_output(t);
      }
    }
  }
}

/// All threads share one block after the other: for few tiles and many channels, where the filters
/// are what has to be read.
void convolve_together(const ConvKernels& k,
                       const WinogradConv& conv,
                       std::int64_t blocks,
                       const Filters& filters,
                       const Workspace& workspace) {
  const std::int64_t tiles = TileGrid(conv.shape).count();
  TileBlock block(k, conv, ceil_div(tiles, blocks));
  block.use(workspace(block.floats()));
  for (std::int64_t b = 0; b < blocks; ++b) {
    block.start(part_of(tiles, b, blocks));
#pragma omp parallel
    {
#pragma omp for schedule(static)
      for (std::int64_t t = 0; t < block.tiles(); ++t) {
        block.transform_input(t);
      }
#pragma omp for schedule(static)
      for (std::int64_t p = 0; p < block.products(); ++p) {
        block.multiply(p, filters);
      }
#pragma omp for schedule(static)
      for (std::int64_t t = 0; t < block.tiles(); ++t) {
        block.transform_output(t);
      }
    }
  }
}

}  // namespace

void winograd_convolution(const ConvKernels& kernels,
                          const WinogradConv& conv,
                          const Workspace& workspace) {
  const std::int64_t tiles = TileGrid(conv.shape).count(), threads = omp_get_max_threads();
  if (tiles <= kFewTiles && ceil_div(conv.outputs, kernels.tile_columns) >= threads) {
    winograd_by_filters(kernels, conv, workspace);
    return;
  }
  const Filters filters = transform_filters(kernels, conv, workspace);
  constexpr std::int64_t kBlocksApart = 4;  // per thread; with fewer, the last ones run alone
  if (threads > 1 && tiles < kBlocksApart * threads * kBlockTiles) {
    const std::int64_t size = std::min<std::int64_t>(threads, kSharedBlocks) * kBlockTiles;
    convolve_together(kernels, conv, ceil_div(tiles, size), filters, workspace);
  } else {
    const std::int64_t blocks = ceil_div(ceil_div(tiles, kBlockTiles), threads) * threads;
    convolve_apart(kernels, conv, std::min(blocks, tiles), filters, workspace);
  }
}

void winograd_filter_gradient(const ConvKernels& k,
                              const WinogradGradient& conv,
                              const Workspace& workspace) {
  const std::int64_t count = TileGrid(conv.shape).count(), outputs = conv.outputs;
  const std::int64_t inputs = conv.shape.channels, panels = ceil_div(inputs, k.tile_columns);
  if (count <= kFewTiles && gradient_parts(k, conv) >= omp_get_max_threads()) {
    winograd_gradient_by_filters(k, conv, workspace);
    return;
  }
  const std::int64_t blocks = ceil_div(count, kGradientBlockTiles);
  const GradientValues values(k, conv, ceil_div(count, blocks), workspace);
  const std::int64_t sum_stride = panels * k.tile_columns, sum_point = outputs * sum_stride + kPad;
  float* sums = workspace(kPoints * sum_point);
#pragma omp parallel
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Range tiles = part_of(count, b, blocks);
#pragma omp for schedule(static)
    for (std::int64_t t = 0; t < tiles.size(); ++t) {
      values.transform(tiles.first + t, t);
    }
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < kPoints * panels; ++p) {
      const std::int64_t point = p / panels, panel = p % panels;
      PanelProduct product = values.product(point, {0, outputs}, panel, tiles.size());
      product.c = sums + point * sum_point + panel * k.tile_columns;
      product.c_stride = sum_stride;
      product.accumulate = b > 0;
      k.multiply_transposed(product);
    }
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t o = 0; o < outputs; ++o) {
    k.winograd_filter_gradient(sums + o * sum_stride, sum_point, inputs,
                               conv.gradient + o * inputs * 9);
  }
}

}  // namespace detforge::cpu
