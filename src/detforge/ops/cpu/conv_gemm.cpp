#include "detforge/ops/cpu/conv_gemm.h"

#include <algorithm>
#include <omp.h>

#include "detforge/ops/cpu/blocks.h"

namespace detforge::cpu {
namespace {

// Columns at a time, at most: with AVX-512 a panel of weights takes 36 KiB of a L1 cache of 48, and
// the 9 taps of every 32 channels are parts of one size.
constexpr std::int64_t kDepth = 288;

/// Pixels of one block, multiples of 14: few, so that they stay in the L1 cache while the weights
/// pass by; more, where the weights do not fit into the L2 cache and have to be fetched each time.
std::int64_t block_rows(std::int64_t weights) {
  constexpr std::int64_t kMebi = 1 << 18;  // floats
  return weights <= kMebi ? 28 : weights <= 4 * kMebi ? 56 : 112;
}

/// Rows of `stride` floats would fall into few sets of the L1 cache.
bool strides_alias(std::int64_t stride) {
  return stride % 1024 == 0;
}

/// Nearly equal parts of `depth` columns, whole cache lines each.
std::int64_t part_depth(std::int64_t depth) {
  const std::int64_t parts = std::max<std::int64_t>(1, ceil_div(depth, kDepth));
  return ceil_div(ceil_div(depth, parts), kPad) * kPad;
}

/// The sums are the outputs.
bool is_plain(const Epilogue& e) {
  return e.bias == nullptr && e.residual.is_null() && e.activation == Activation::kNone;
}

/// Weights as panels [panel][tap and input channel][tile_columns].
float* pack_weights(const ConvKernels& k, const GemmConv& conv, const Workspace& workspace) {
  const std::int64_t channels = conv.shape.channels, outputs = conv.output.channels;
  const auto taps = static_cast<std::int64_t>(conv.taps.size());
  const std::int64_t panels = ceil_div(outputs, k.tile_columns);
  const std::int64_t panel_size = taps * channels * k.tile_columns;
  float* packed = workspace(panels * panel_size);
  const ConvWeights& w = conv.weights;
#pragma omp parallel for schedule(static)
  for (std::int64_t part = 0; part < panels * taps; ++part) {
    const std::int64_t panel = part / taps, tap = part % taps, first = panel * k.tile_columns;
    k.pack(
        w.data + conv.taps[static_cast<std::size_t>(tap)].weight_offset + first * w.output_stride,
        channels, std::min(k.tile_columns, outputs - first), w.input_stride, w.output_stride,
        packed + panel * panel_size + tap * channels * k.tile_columns);
  }
  return packed;
}

/// One thread's block of rows: from pixels to stored outputs.
class RowBlock {
 public:
  RowBlock(const ConvKernels& k,
           const GemmConv& conv,
           const PixelRows& pixels,
           std::int64_t capacity)
      : k_(k),
        conv_(conv),
        pixels_(pixels),
        capacity_(capacity),
        depth_(pixels.columns()),
        panels_(ceil_div(conv.output.channels, k.tile_columns)),
        part_depth_(part_depth(depth_)),
        in_place_(pixels.in_place() != nullptr && !strides_alias(pixels.columns())),
        plain_output_(is_plain(conv.epilogue) && conv.output.step_y == 1 &&
                      conv.output.step_x == 1 && conv.output.data.storage() == Storage::kFloat) {}

  std::int64_t panels() const { return panels_; }
  std::int64_t floats() const { return row_floats() + sum_floats() + offset_floats() + kPad; }
  void use(float* memory) {
    rows_ = memory;
    sums_ = rows_ + row_floats();
    offsets_ = reinterpret_cast<std::int64_t*>(sums_ + sum_floats());
  }

  void run(const Range& rows, const Range& panels, const float* weights) const {
    const std::int64_t first = rows.first, count = rows.size();
    find_offsets(first, count);
    std::int64_t c = 0;
    do {  // once at least: without taps the result is the epilogue of zero
      const std::int64_t depth = std::min(part_depth_, depth_ - c);
      const float* a = rows_;
      if (in_place_) {
        a = pixels_.in_place() + first * depth_ + c;
      } else {
        pixels_.copy_rows(k_, first, count, c, depth, rows_, kDepth + kPad);
      }
      for (std::int64_t panel = panels.first; panel < panels.end; ++panel) {
        const Sums sums = sums_of(panel, first);
        k_.multiply({.rows = count,
                     .depth = depth,
                     .a = a,
                     .a_stride = in_place_ ? depth_ : kDepth + kPad,
                     .b = weights + (panel * depth_ + c) * k_.tile_columns,
                     .c = sums.data,
                     .c_stride = sums.stride,
                     .accumulate = c > 0});
        if (c + depth == depth_ && !sums.are_outputs) {
          store(panel, count, sums.data);
        }
      }
      c += depth;
    } while (c < depth_);
  }

 private:
  /// Where a panel's sums are formed.
  struct Sums {
    float* data;
    std::int64_t stride;
    bool are_outputs;  ///< in the output itself: nothing is left to be stored
  };

  Sums sums_of(std::int64_t panel, std::int64_t first_row) const {
    const OutputPlaces& o = conv_.output;
    const std::int64_t column = panel * k_.tile_columns;
    if (plain_output_ && column + k_.tile_columns <= o.channels) {
      return {o.data.as<float>() + first_row * o.channels + column, o.channels, true};
    }
    const std::int64_t slot = sum_slots() > 1 ? panel : 0;
    return {sums_ + slot * capacity_ * k_.tile_columns, k_.tile_columns, false};
  }

  std::int64_t row_floats() const { return in_place_ ? 0 : capacity_ * (kDepth + kPad); }
  std::int64_t sum_floats() const { return sum_slots() * capacity_ * k_.tile_columns; }
  /// Panels whose sums have to wait for more columns. (Of plain outputs only the last, partial
  /// one.)
  std::int64_t sum_slots() const { return depth_ > part_depth_ && !plain_output_ ? panels_ : 1; }
  std::int64_t offset_floats() const { return 2 * capacity_; }

  void find_offsets(std::int64_t first, std::int64_t count) const {
    const OutputPlaces& o = conv_.output;
    const PixelRows::Grid& grid = pixels_.grid();
    PixelWalk walk(grid.height, grid.width, first);
    for (std::int64_t i = 0; i < count; ++i, walk.next()) {
      const std::int64_t row = walk.image * o.height + o.first_y + walk.y * o.step_y;
      offsets_[i] = (row * o.width + o.first_x + walk.x * o.step_x) * o.channels;
    }
  }

  void store(std::int64_t panel, std::int64_t count, const float* sums) const {
    const std::int64_t first = panel * k_.tile_columns;
    Epilogue epilogue = conv_.epilogue;
    epilogue.bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + first;
    epilogue.residual =
        epilogue.residual.is_null() ? ConstMap() : ConstMap(epilogue.residual + first);
    k_.store({.rows = count,
              .columns = std::min(k_.tile_columns, conv_.output.channels - first),
              .sums = sums,
              .offsets = offsets_,
              .output = conv_.output.data + first},
             epilogue);
  }

  const ConvKernels& k_;
  const GemmConv& conv_;
  const PixelRows& pixels_;
  std::int64_t capacity_, depth_, panels_, part_depth_;
  bool in_place_, plain_output_;
  float *rows_ = nullptr, *sums_ = nullptr;
  std::int64_t* offsets_ = nullptr;
};

}  // namespace

void gemm_convolution(const ConvKernels& kernels,
                      const GemmConv& conv,
                      const Workspace& workspace) {
  const PixelRows pixels(conv.input, conv.shape, conv.taps, conv.grid);
  const std::int64_t rows = pixels.rows(), threads = omp_get_max_threads();
  if (rows == 0) {
    return;
  }
  const float* weights = pack_weights(kernels, conv, workspace);
  const std::int64_t size = block_rows(pixels.columns() * conv.output.channels);
  const std::int64_t whole = ceil_div(ceil_div(rows, size), threads) * threads;
  const std::int64_t blocks = std::min(whole, ceil_div(rows, kernels.tile_rows));
  const RowBlock layout(kernels, conv, pixels, ceil_div(rows, blocks));
  // Too few pixels for all threads: they share out the panels of a block.
  const std::int64_t groups = std::min(layout.panels(), ceil_div(threads, blocks));
  const std::int64_t each = ceil_div(layout.floats(), kPad) * kPad;
  float* memory = workspace(each * threads);
#pragma omp parallel
  {
    RowBlock block = layout;
    block.use(memory + each * omp_get_thread_num());
#pragma omp for schedule(static)
    for (std::int64_t part = 0; part < blocks * groups; ++part) {
      const std::int64_t b = part / groups, group = part % groups;
      block.run(part_of(rows, b, blocks), part_of(layout.panels(), group, groups), weights);
    }
  }
}

}  // namespace detforge::cpu
