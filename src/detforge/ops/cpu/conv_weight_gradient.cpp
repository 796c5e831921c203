#include <algorithm>
#include <cstring>
#include <omp.h>

#include "detforge/ops/cpu/blocks.h"
#include "detforge/ops/cpu/conv_gemm.h"

namespace detforge::cpu {
namespace {

constexpr std::int64_t kBlockPixels = 192;  // a panel of them fits in L1

/// sums[outputs][stride]: rows of `outputs`, the columns of `panels`, over all pixels in order.
class SumBlock {
 public:
  SumBlock(const ConvKernels& k, const GemmWeightGradient& conv, const PixelRows& pixels)
      : k_(k), conv_(conv), pixels_(pixels) {}

  std::int64_t stride() const {
    return ceil_div(pixels_.columns(), k_.tile_columns) * k_.tile_columns;
  }
  std::int64_t floats() const { return kBlockPixels * (stride() + conv_.outputs + kPad) + kPad; }

  void run(const Range& outputs, const Range& panels, float* memory, float* sums) const {
    float* gradients = memory + kBlockPixels * panels.size() * k_.tile_columns;
    const std::int64_t first_column = panels.first * k_.tile_columns;
    const std::int64_t end_column = std::min(panels.end * k_.tile_columns, pixels_.columns());
    for (std::int64_t p = 0; p < pixels_.rows(); p += kBlockPixels) {
      const std::int64_t count = std::min(kBlockPixels, pixels_.rows() - p);
      pixels_.copy_panels(p, count, first_column, end_column - first_column, memory,
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
                                .accumulate = p > 0});
      }
    }
  }

 private:
  void copy_gradients(std::int64_t first,
                      std::int64_t count,
                      const Range& outputs,
                      float* to) const {
    const auto bytes = static_cast<std::size_t>(outputs.size()) * sizeof(float);
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * (outputs.size() + kPad),
                  conv_.grad_output + (first + i) * conv_.outputs + outputs.first, bytes);
    }
  }

  const ConvKernels& k_;
  const GemmWeightGradient& conv_;
  const PixelRows& pixels_;
};

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

}  // namespace

void gemm_weight_gradient(const ConvKernels& kernels,
                          const GemmWeightGradient& conv,
                          const Workspace& workspace) {
  const PixelRows pixels(conv.input, conv.shape, conv.taps, conv.grid);
  const SumBlock block(kernels, conv, pixels);
  // Threads share out the larger side of the result; each copies all of the smaller one.
  const std::int64_t panels = block.stride() / kernels.tile_columns,
                     threads = omp_get_max_threads();
  const bool by_panels = pixels.columns() >= conv.outputs && panels >= threads;
  const std::int64_t parts = std::min(threads, by_panels ? panels : conv.outputs);
  const bool direct =
      conv.taps.size() == 1 && conv.input_stride == 1 && conv.output_stride == block.stride();
  float* sums = direct ? conv.gradient + conv.taps[0].weight_offset
                       : workspace(conv.outputs * block.stride());
  const std::int64_t each = ceil_div(block.floats(), kPad) * kPad;
  float* memory = workspace(each * parts);
#pragma omp parallel for schedule(static)
  for (std::int64_t part = 0; part < parts; ++part) {
    const Range outputs = by_panels ? Range{0, conv.outputs} : part_of(conv.outputs, part, parts);
    const Range columns = by_panels ? part_of(panels, part, parts) : Range{0, panels};
    block.run(outputs, columns, memory + each * part, sums);
  }
  if (!direct) {
    write_gradient(conv, sums, block.stride());
  }
}

}  // namespace detforge::cpu
