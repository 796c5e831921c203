#include "detforge/ops/gather_patches.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/layout.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kPatch = 3;
constexpr std::int64_t kTaps = kPatch * kPatch;

/// A map and the way from one value to the next: NCHW or NHWC.
struct MapShape {
  std::int64_t channels, height, width;
  std::int64_t image, channel, pixel;  ///< steps, in values

  MapShape(at::IntArrayRef sizes, at::MemoryFormat layout)
      : channels(sizes[1]), height(sizes[2]), width(sizes[3]), image(channels * height * width) {
    const bool nhwc = layout == at::MemoryFormat::ChannelsLast;
    channel = nhwc ? 1 : height * width;
    pixel = nhwc ? channels : 1;
  }
};

// Calls visit(first channel of a pixel of the map, its position in the patch) for each tap of the
// patch around `cell` that lies on the map.
template <typename Visit>
void visit_patch(const MapShape& shape, std::int64_t cell, Visit visit) {
  const std::int64_t x = cell % shape.width;
  const std::int64_t y = cell / shape.width % shape.height;
  const std::int64_t image = cell / shape.width / shape.height;
  for (std::int64_t row = std::max<std::int64_t>(y - 1, 0);
       row <= std::min(y + 1, shape.height - 1); ++row) {
    for (std::int64_t column = std::max<std::int64_t>(x - 1, 0);
         column <= std::min(x + 1, shape.width - 1); ++column) {
      visit(image * shape.image + (row * shape.width + column) * shape.pixel,
            (row - y + 1) * kPatch + column - x + 1);
    }
  }
}

/// Copies the channels of the tap's pixel into a patch; T: an integer of the values' size.
template <typename T>
void copy_patches(const MapShape& shape, const Tensor& map, const Tensor& cells, Tensor& patches) {
  const auto* from = static_cast<const T*>(map.data_ptr());
  const std::int64_t* cell = cells.data_ptr<std::int64_t>();
  auto* to = static_cast<T*>(patches.data_ptr());
  at::parallel_for(0, cells.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T* patch = to + s * shape.channels * kTaps;
      visit_patch(shape, cell[s], [&](std::int64_t pixel, std::int64_t tap) {
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          patch[c * kTaps + tap] = from[pixel + c * shape.channel];
        }
      });
    }
  });
}

/// Keeps the cells and the map's shape for backward; the map is not needed there.
class GatherPatchesFunction : public torch::autograd::Function<GatherPatchesFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& map, const Tensor& cells) {
    const at::MemoryFormat layout = layout_of(map);
    const Tensor input = map.contiguous(layout);
    const MapShape shape(input.sizes(), layout);
    Tensor patches = at::zeros({cells.size(0), shape.channels * kTaps}, input.options());
    if (input.scalar_type() == at::kFloat) {
      copy_patches<std::uint32_t>(shape, input, cells, patches);
    } else {
      copy_patches<std::uint16_t>(shape, input, cells, patches);
    }
    ctx->save_for_backward({cells});
    ctx->saved_data["map"] = input.sizes();
    ctx->saved_data["layout"] = static_cast<std::int64_t>(layout);
    return patches;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Tensor cells = ctx->get_saved_variables()[0];
    const std::vector<std::int64_t> sizes = ctx->saved_data["map"].toIntVector();
    const auto layout = static_cast<at::MemoryFormat>(ctx->saved_data["layout"].toInt());
    const MapShape shape(sizes, layout);
    const Tensor grad_patches = widen(grads[0]).contiguous();
    Tensor grad_map = at::empty(sizes, grad_patches.options(), layout).zero_();
    const float* from = grad_patches.data_ptr<float>();
    const std::int64_t* cell = cells.data_ptr<std::int64_t>();
    float* to = grad_map.data_ptr<float>();
    // Patches overlap only within a channel, so channels are what threads may share out: 16 of
    // them, a cache line of NHWC.
    at::parallel_for(0, shape.channels, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = 0; s < cells.size(0); ++s) {
        const float* patch = from + s * shape.channels * kTaps;
        visit_patch(shape, cell[s], [&](std::int64_t pixel, std::int64_t tap) {
          for (std::int64_t c = begin; c < end; ++c) {
            to[pixel + c * shape.channel] += patch[c * kTaps + tap];
          }
        });
      }
    });
    return {to_map_type(grad_map, grads[0].scalar_type()), Tensor()};
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
  RECORD_FUNCTION("detforge::gather_patches", {});
  DETFORGE_CHECK(map.dim() == 4 && map.is_cpu() &&
                     (map.scalar_type() == torch::kFloat || is_half_type(map.scalar_type())),
                 "gather_patches needs an f32, f16 or bf16 map [N,C,H,W] on the CPU",
                 "convert the map first");
  DETFORGE_CHECK(cells.dim() == 1 && cells.scalar_type() == torch::kLong && cells.is_cpu(),
                 "gather_patches needs i64 cells [S] on the CPU", "convert the cells first");
  check_cells(cells, map.size(0) * map.size(2) * map.size(3));
  return GatherPatchesFunction::apply(map, cells.contiguous());
}

}  // namespace detforge
