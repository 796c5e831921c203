#pragma once

#include "detforge/ops/cpu/winograd_kernels.h"

namespace detforge::cpu {
namespace {

/// The kernels of the instruction set that this file is compiled for.
constexpr ConvKernels make_conv_kernels(const char* name) {
  return {.name = name,
          .lanes = kLanes,
          .tile_rows = Vector::kTileRows,
          .tile_columns = kTileColumns,
          .multiply = multiply_panel<TileLayout::kRows>,
          .multiply_transposed = multiply_panel<TileLayout::kColumns>,
          .store = store_panel,
          .pack = pack_panel,
          .load_values = load_values,
          .store_values = store_values,
          .activation_gradient = activation_gradient,
          .add_rows = add_rows,
          .scale_gradient = scale_gradient,
          .winograd_input = winograd_input,
          .winograd_output = winograd_output,
          .winograd_output_gradient = winograd_output_gradient,
          .winograd_filter = winograd_filter,
          .winograd_filter_gradient = winograd_filter_gradient};
}

}  // namespace
}  // namespace detforge::cpu
