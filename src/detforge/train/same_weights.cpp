#include "detforge/train/same_weights.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge {

std::uint64_t hash_of_weights(const Detector& detector) {
  std::uint64_t hash = files::fnv1a64({});
  for (const auto& item : detector.named_parameters()) {
    const Tensor values = item.value().detach().contiguous();
    hash = files::fnv1a64(item.key(), hash);
    hash = files::fnv1a64({static_cast<const char*>(values.data_ptr()), values.nbytes()}, hash);
  }
  return hash;
}

void check_same_weights(Communicator& communicator, const Detector& detector, const char* when) {
  if (communicator.world_size() == 1) {
    return;
  }
  const auto own = static_cast<std::int64_t>(hash_of_weights(detector));
  const Tensor all = communicator.all_gather(torch::full({1}, own, torch::kLong));
  std::vector<std::int64_t> others;
  for (std::int64_t rank = 1; rank < all.size(0); ++rank) {
    if (all[rank].item<std::int64_t>() != all[0].item<std::int64_t>()) {
      others.push_back(rank);
    }
  }
  DETFORGE_CHECK(others.empty(),
                 fmt::format("{}, the weights of rank(s) {} are not those of rank 0", when,
                             fmt::join(others, ", ")),
                 "all ranks need the same checkpoints and MODEL.WEIGHTS (a shared OUTPUT_DIR, or "
                 "copies) and the same number of --threads");
}

void share_buffers(Communicator& communicator, const Detector& detector) {
  if (communicator.world_size() == 1) {
    return;
  }
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> buffers, flat;
  for (const Tensor& buffer : detector.buffers()) {
    if (buffer.is_floating_point()) {
      buffers.push_back(buffer);
      flat.push_back(buffer.reshape({-1}).to(at::kFloat));
    }
  }
  if (buffers.empty()) {
    return;
  }
  Tensor all = torch::cat(flat);
  communicator.broadcast_(all, 0);
  std::int64_t begin = 0;
  for (Tensor& buffer : buffers) {
    buffer.copy_(all.narrow(0, begin, buffer.numel()).view(buffer.sizes()));
    begin += buffer.numel();
  }
}

}  // namespace detforge
