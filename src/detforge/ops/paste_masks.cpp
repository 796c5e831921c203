#include "detforge/ops/paste_masks.h"

#include <string>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/paste_mask_kernel.h"

namespace detforge {
namespace {

void check(const Tensor& masks, const Tensor& boxes, ImageSize size, double threshold) {
  DETFORGE_CHECK(masks.dim() == 3 && masks.size(1) == masks.size(2) && masks.size(1) > 0 &&
                     boxes.dim() == 2 && boxes.size(1) == 4 && boxes.size(0) == masks.size(0),
                 "pasting needs masks [D,M,M] and boxes [D,4]", "give one box for each mask");
  DETFORGE_CHECK(masks.scalar_type() == torch::kFloat && boxes.scalar_type() == torch::kFloat,
                 "masks and boxes to paste must be f32", "convert them with .to(torch::kFloat)");
  DETFORGE_CHECK(size.height > 0 && size.width > 0 && size.height <= UINT32_MAX / size.width,
                 "cannot paste masks into an image of " + std::to_string(size.height) + " x " +
                     std::to_string(size.width) + " pixels",
                 "both sides must be positive and their product below 2^32");
  DETFORGE_CHECK(threshold > 0, "the mask threshold is " + std::to_string(threshold),
                 "give a probability above 0; everything outside the boxes has probability 0");
}

}  // namespace

std::vector<Rle> paste_masks(const Tensor& masks,
                             const Tensor& boxes,
                             ImageSize size,
                             double threshold) {
  check(masks, boxes, size, threshold);
  const Tensor grids = masks.detach().to(torch::kCPU).contiguous();
  const Tensor places = boxes.detach().to(torch::kCPU).contiguous();
  const std::int64_t side = grids.size(1);
  std::vector<Rle> pasted(static_cast<std::size_t>(grids.size(0)));
  at::parallel_for(0, grids.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t d = begin; d < end; ++d) {
      pasted[static_cast<std::size_t>(d)] =
          cpu::paste_mask({.grid = grids.data_ptr<float>() + d * side * side,
                           .side = side,
                           .box = places.data_ptr<float>() + d * 4,
                           .size = size,
                           .threshold = static_cast<float>(threshold)});
    }
  });
  return pasted;
}

}  // namespace detforge
