#include "detforge/ops/gather_patches.h"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kPatch = 3;
constexpr std::int64_t kTaps = kPatch * kPatch;

struct MapShape {
  std::int64_t channels, height, width;
};

// Calls visit(offset in the map, position in the patch) for each tap of the patch around `cell`
// that lies on the map, in channel `channel`.
template <typename Visit>
void visit_patch(const MapShape& shape, std::int64_t cell, std::int64_t channel, Visit visit) {
  const std::int64_t x = cell % shape.width;
  const std::int64_t y = cell / shape.width % shape.height;
  const std::int64_t image = cell / shape.width / shape.height;
  const std::int64_t plane = (image * shape.channels + channel) * shape.height * shape.width;
  for (std::int64_t row = std::max<std::int64_t>(y - 1, 0);
       row <= std::min(y + 1, shape.height - 1); ++row) {
    for (std::int64_t column = std::max<std::int64_t>(x - 1, 0);
         column <= std::min(x + 1, shape.width - 1); ++column) {
      visit(plane + row * shape.width + column, (row - y + 1) * kPatch + column - x + 1);
    }
  }
}

/// Keeps the cells and the map's shape for backward; the map is not needed there.
class GatherPatchesFunction : public torch::autograd::Function<GatherPatchesFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& map, const Tensor& cells) {
    const Tensor input = map.contiguous();
    const MapShape shape{input.size(1), input.size(2), input.size(3)};
    Tensor patches = at::zeros({cells.size(0), shape.channels * kTaps}, input.options());
    const float* from = input.data_ptr<float>();
    const std::int64_t* cell = cells.data_ptr<std::int64_t>();
    float* to = patches.data_ptr<float>();
    at::parallel_for(0, cells.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          float* patch = to + (s * shape.channels + c) * kTaps;
          visit_patch(shape, cell[s], c,
                      [&](std::int64_t at, std::int64_t tap) { patch[tap] = from[at]; });
        }
      }
    });
    ctx->save_for_backward({cells});
    ctx->saved_data["map"] = input.sizes();
    return patches;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Tensor cells = ctx->get_saved_variables()[0];
    const std::vector<std::int64_t> sizes = ctx->saved_data["map"].toIntVector();
    const MapShape shape{sizes[1], sizes[2], sizes[3]};
    const Tensor grad_patches = grads[0].contiguous();
    Tensor grad_map = at::zeros(sizes, grad_patches.options());
    const float* from = grad_patches.data_ptr<float>();
    const std::int64_t* cell = cells.data_ptr<std::int64_t>();
    float* to = grad_map.data_ptr<float>();
    // Patches overlap only within a channel, so channels are what threads may share out.
    at::parallel_for(0, shape.channels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = 0; s < cells.size(0); ++s) {
        for (std::int64_t c = begin; c < end; ++c) {
          const float* patch = from + (s * shape.channels + c) * kTaps;
          visit_patch(shape, cell[s], c,
                      [&](std::int64_t at, std::int64_t tap) { to[at] += patch[tap]; });
        }
      }
    });
    return {grad_map, Tensor()};
  }
};

void check_cells(const Tensor& cells, std::int64_t count) {
  DETFORGE_CHECK(cells.numel() == 0 || (cells.min().item<std::int64_t>() >= 0 &&
                                        cells.max().item<std::int64_t>() < count),
                 "a patch lies around a cell outside the " + std::to_string(count) + " of the maps",
                 "number the cells (image * H + y) * W + x");
}

}  // namespace

Tensor gather_patches(const Tensor& map, const Tensor& cells) {
  DETFORGE_CHECK(map.dim() == 4 && map.scalar_type() == torch::kFloat && map.is_cpu(),
                 "gather_patches needs an f32 map [N,C,H,W] on the CPU", "convert the map first");
  DETFORGE_CHECK(cells.dim() == 1 && cells.scalar_type() == torch::kLong && cells.is_cpu(),
                 "gather_patches needs i64 cells [S] on the CPU", "convert the cells first");
  check_cells(cells, map.size(0) * map.size(2) * map.size(3));
  return GatherPatchesFunction::apply(map, cells.contiguous());
}

}  // namespace detforge
