#pragma once

#include <cstdint>

#include "detforge/ops/activation.h"
#include "detforge/ops/cpu/map_data.h"

/// The innermost parts of the convolutions, written once over a vector type (simd.h) and compiled
/// for AVX2 + FMA + F16C and for AVX-512. Everything here works on one block of one thread; the
/// drivers (conv_gemm, conv_weight_gradient, winograd) choose blocks and threads. All maps are
/// NHWC.
namespace detforge::cpu {

/// C[rows][tile_columns] (+)= A[rows][depth] B[depth][tile_columns]
struct PanelProduct {
  std::int64_t rows = 0, depth = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;  ///< one panel, contiguous
  float* c = nullptr;
  std::int64_t c_stride = 0;
  bool accumulate = false;  ///< add to what C holds
};

/// What is done to a sum before it is stored: activation(sum + bias + residual).
struct Epilogue {
  const float* bias = nullptr;  ///< of the first column, or null
  ConstMap residual = {};       ///< laid out and stored as the output, or null
  Activation activation = Activation::kNone;
  float leaky_slope = 0;
};

/// A panel of finished sums to be stored: row i goes to output + offsets[i].
struct PanelStore {
  std::int64_t rows = 0;
  std::int64_t columns = 0;     ///< 1 to tile_columns
  const float* sums = nullptr;  ///< [rows][tile_columns]
  const std::int64_t* offsets = nullptr;
  Map output = {};
};

/// What an activation leaves of an output's gradient: grad_output where `output` is positive or
/// NaN, else slope * grad_output (0 if the slope is 0). [rows][channels] each, of one storage.
struct ActivationGradient {
  std::int64_t rows = 0, channels = 0;
  ConstMap output = {}, grad_output = {};
  float slope = 0;
  Map gradient = {};
};

/// One image or a batch of them.
struct MapShape {
  std::int64_t images = 0, height = 0, width = 0, channels = 0;
};

/// Where the 36 values of Winograd's domain lie for one tile: value `point` of channel c at
/// point * point_stride + c / tile_columns * panel_stride + c % tile_columns.
struct WinogradLayout {
  std::int64_t point_stride = 0, panel_stride = 0;
};

/// The 4x4 output pixels of one tile: rows 4 tile_y.., columns 4 tile_x.. of one image.
struct WinogradTile {
  std::int64_t image = 0, tile_y = 0, tile_x = 0;
};

struct ChannelRange {
  std::int64_t first = 0, end = 0;
};

/// 3x3 filters in memory: the tap (ky, kx) of output o and input i at
/// data[o * output_stride + i * input_stride + (ky * 3 + kx)]; flipped: taps in reverse order.
struct FilterView {
  const float* data = nullptr;
  std::int64_t output_stride = 0, input_stride = 0;
  bool flipped = false;
};

struct ConvKernels {
  const char* name;
  std::int64_t lanes, tile_rows, tile_columns;

  /// C (+)= A B, A's rows contiguous along depth.
  void (*multiply)(const PanelProduct& product);
  /// C (+)= A^T B, A [depth][rows] with a_stride floats from one depth to the next.
  void (*multiply_transposed)(const PanelProduct& product);
  void (*store)(const PanelStore& panel, const Epilogue& epilogue);

  /// One panel B[depth][tile_columns] of a matrix whose value (k, n) is at source[k * k_stride + n
  /// * n_stride]; columns beyond `columns` (1 to tile_columns) become 0. n_stride fits into 27
  /// bits.
  void (*pack)(const float* source,
               std::int64_t depth,
               std::int64_t columns,
               std::int64_t k_stride,
               std::int64_t n_stride,
               float* panel);

  /// `count` values, converted.
  void (*load_values)(const ConstMap& from, std::int64_t count, float* to);
  void (*store_values)(const float* from, std::int64_t count, const Map& to);

  /// Adds the sum over rows of each channel's gradient, before it is rounded for its storage, to
  /// bias_sum unless that is null.
  void (*activation_gradient)(const ActivationGradient& activation, float* bias_sum);
  /// bias_sum[channels] += the sum over rows of values[rows][channels]
  void (*add_rows)(const ConstMap& values,
                   std::int64_t rows,
                   std::int64_t channels,
                   float* bias_sum);

  /// One output of a weight that is scaled: scaled = scale * gradient, [count] each; returns the
  /// sum of gradient * weight, which is the scale's gradient.
  float (*scale_gradient)(
      const float* gradient, const float* weight, std::int64_t count, float scale, float* scaled);

  // Winograd F(4x4,3x3), stride 1, padding 1; channels are multiples of `lanes`.

  /// B^T d B of the 6x6 pixels around the tile, zeros outside the map.
  void (*winograd_input)(const ConstMap& map,
                         const MapShape& shape,
                         const WinogradTile& tile,
                         const WinogradLayout& layout,
                         float* values);
  /// A^T m A of some channels: epilogue and store of the tile's pixels inside the map. `values` and
  /// `layout` count channels from the first of them, which is a multiple of tile_columns.
  void (*winograd_output)(const float* values,
                          const WinogradLayout& layout,
                          const WinogradTile& tile,
                          const MapShape& shape,
                          const ChannelRange& channels,
                          const Epilogue& epilogue,
                          const Map& map);
  /// A d A^T of the tile's 4x4 output gradients, zeros outside the map.
  void (*winograd_output_gradient)(const ConstMap& map,
                                   const MapShape& shape,
                                   const WinogradTile& tile,
                                   const WinogradLayout& layout,
                                   float* values);
  /// G g G^T of the filters of `lanes` output channels from `first_output` on: value `point` of
  /// input c and the i-th of them at values[point * point_stride + c * tile_columns + i].
  void (*winograd_filter)(const FilterView& filters,
                          std::int64_t first_output,
                          std::int64_t inputs,
                          std::int64_t point_stride,
                          float* values);
  /// G^T s G for one output channel: gradient[inputs][3][3] from values[point][inputs].
  void (*winograd_filter_gradient)(const float* values,
                                   std::int64_t point_stride,
                                   std::int64_t inputs,
                                   float* gradient);
};

/// The fastest build for this processor; null if it has no AVX2, FMA and F16C (then LibTorch's
/// convolutions are used).
const ConvKernels* conv_kernels();
/// The builds that this processor can run, for tests.
const ConvKernels* avx2_conv_kernels();
const ConvKernels* avx512_conv_kernels();

}  // namespace detforge::cpu
