#include <algorithm>
#include <bit>
#include <cstdint>
#include <omp.h>

#include "detforge/ops/cpu/blocks.h"
#include "detforge/ops/cpu/conv_gemm.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kBlockPixels = 192;      // a panel of them fits in L1
constexpr std::int64_t kSegmentBlocks = 4;      // in a segment of the pixels, at least
constexpr std::int64_t kSegments = 16;          // of the pixels, at most, each with sums of its own
constexpr std::int64_t kSegmentSums = 1 << 19;  // floats in all segments' sums, at most

/// sums[outputs][stride]: rows of `outputs`, the columns of `panels`, over `pixels` in order.
class SumBlock {
 public:
  SumBlock(const ConvKernels& k, const GemmWeightGradient& conv, const PixelRows& pixels)
      : k_(k), conv_(conv), pixels_(pixels) {}

  std::int64_t stride() const {
    return ceil_div(pixels_.columns(), k_.tile_columns) * k_.tile_columns;
  }
  std::int64_t floats() const { return kBlockPixels * (stride() + conv_.outputs + kPad) + kPad; }

  void run(const Range& pixels,
           const Range& outputs,
           const Range& panels,
           float* memory,
           float* sums) const {
    float* gradients = memory + kBlockPixels * panels.size() * k_.tile_columns;
    const std::int64_t first_column = panels.first * k_.tile_columns;
    const std::int64_t end_column = std::min(panels.end * k_.tile_columns, pixels_.columns());
    for (std::int64_t p = pixels.first; p < pixels.end; p += kBlockPixels) {
      const std::int64_t count = std::min(kBlockPixels, pixels.end - p);
      pixels_.copy_panels(k_, p, count, first_column, end_column - first_column, memory,
                          k_.tile_columns);
      copy_gradients(p, count, outputs, gradients);
      for (std::int64_t panel = panels.first; panel < panels.end; ++panel) {
        k_.multiply_transposed({.rows = outputs.size(),
                                .depth = count,
                                .a = gradients,
                                .a_stride = outputs.size() + kPad,
                                .b = memory + (panel - panels.first) * count * k_.tile_columns,
                                .c = sums + outputs.first * stride() + panel * k_.tile_columns,
                                .c_stride = stride(),
                                .accumulate = p > pixels.first});
      }
    }
  }

 private:
  void copy_gradients(std::int64_t first,
                      std::int64_t count,
                      const Range& outputs,
                      float* to) const {
    for (std::int64_t i = 0; i < count; ++i) {
      k_.load_values(conv_.grad_output + ((first + i) * conv_.outputs + outputs.first),
                     outputs.size(), to + i * (outputs.size() + kPad));
    }
  }

  const ConvKernels& k_;
  const GemmWeightGradient& conv_;
  const PixelRows& pixels_;
};

/// sums[0][row][column] += sums[1][row][column] + ...
void add_segments(float* sums, std::int64_t rows, std::int64_t stride, std::int64_t segments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t segment = 1; segment < segments; ++segment) {
      const float* from = sums + (segment * rows + r) * stride;
      for (std::int64_t c = 0; c < stride; ++c) {
        sums[r * stride + c] += from[c];
      }
    }
  }
}

/// From sums[output][tap][channel] to the weights' layout.
void write_gradient(const GemmWeightGradient& conv, const float* sums, std::int64_t stride) {
  const std::int64_t channels = conv.shape.channels;
#pragma omp parallel for schedule(static)
  for (std::int64_t o = 0; o < conv.outputs; ++o) {
    for (std::size_t t = 0; t < conv.taps.size(); ++t) {
      const float* from = sums + o * stride + static_cast<std::int64_t>(t) * channels;
      float* to = conv.gradient + o * conv.output_stride + conv.taps[t].weight_offset;
      for (std::int64_t c = 0; c < channels; ++c) {
        to[c * conv.input_stride] = from[c];
      }
    }
  }
}

/// How the work is shared out: a segment of the pixels and a group of the result's rows or columns
/// for each part. The segments do not depend on the threads, so neither do the sums.
struct Shares {
  std::int64_t segments, groups;
  bool by_panels;  ///< groups are of columns
};

/// Few pixels for each value of the result, or a large result: one segment, and threads share out
/// the larger side of the result, which makes each copy all of the smaller one.
Shares share_out(const GemmWeightGradient& conv,
                 const PixelRows& pixels,
                 std::int64_t panels,
                 std::int64_t sum_floats) {
  const std::int64_t threads = omp_get_max_threads();
  const std::int64_t most =
      std::min({kSegments, kSegmentSums / std::max<std::int64_t>(sum_floats, 1),
                pixels.rows() / (kSegmentBlocks * kBlockPixels)});
  // A power of two, which most numbers of threads divide or are multiples of.
  const auto segments = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))));
  const std::int64_t wanted = ceil_div(threads, segments);
  const bool by_panels = pixels.columns() >= conv.outputs && panels >= wanted;
  return {segments, std::min(wanted, by_panels ? panels : conv.outputs), by_panels};
}

}  // namespace

void gemm_weight_gradient(const ConvKernels& kernels,
                          const GemmWeightGradient& conv,
                          const Workspace& workspace) {
  const PixelRows pixels(conv.input, conv.shape, conv.taps, conv.grid);
  const SumBlock block(kernels, conv, pixels);
  const std::int64_t panels = block.stride() / kernels.tile_columns;
  const std::int64_t sum_floats = conv.outputs * block.stride();
  const Shares shares = share_out(conv, pixels, panels, sum_floats);
  const bool direct = shares.segments == 1 && conv.taps.size() == 1 && conv.input_stride == 1 &&
                      conv.output_stride == block.stride();
  float* sums =
      direct ? conv.gradient + conv.taps[0].weight_offset : workspace(shares.segments * sum_floats);
  const std::int64_t each = ceil_div(block.floats(), kPad) * kPad;
  float* memory = workspace(each * omp_get_max_threads());
#pragma omp parallel for schedule(static)
  for (std::int64_t part = 0; part < shares.segments * shares.groups; ++part) {
    const std::int64_t segment = part / shares.groups, group = part % shares.groups;
    const Range all_outputs{0, conv.outputs}, all_panels{0, panels};
    block.run(part_of(pixels.rows(), segment, shares.segments),
              shares.by_panels ? all_outputs : part_of(conv.outputs, group, shares.groups),
              shares.by_panels ? part_of(panels, group, shares.groups) : all_panels,
              memory + each * omp_get_thread_num(), sums + segment * sum_floats);
  }
  if (!direct) {
    add_segments(sums, conv.outputs, block.stride(), shares.segments);
    write_gradient(conv, sums, block.stride());
  }
}

}  // namespace detforge::cpu
