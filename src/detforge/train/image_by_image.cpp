#include "detforge/train/image_by_image.h"

#include <torch/types.h>

#include "detforge/core/timer.h"
#include "detforge/distributed/reduce.h"
#include "detforge/train/split_batch.h"
#include "detforge/train/step_losses.h"

namespace detforge {
namespace {

/// The batch padded to the largest height and width of all ranks' images.
Batch padded_like_all(const Batch& batch, Communicator& communicator) {
  const Tensor own = torch::tensor({batch.images.images.size(2), batch.images.images.size(3)});
  const Tensor most = std::get<0>(communicator.all_gather(own).max(0));
  const Tensor more = most - own;
  Batch padded = batch;
  padded.images.images = torch::constant_pad_nd(
      batch.images.images, {0, more[1].item<std::int64_t>(), 0, more[0].item<std::int64_t>()});
  return padded;
}

/// All gradients in one f32 row; zeros where there is none.
Tensor flat_gradient(const Sgd& optimizer) {
  std::vector<Tensor> parts;
  for (const auto& [name, parameter] : optimizer.parameters()) {
    parts.push_back(parameter.grad().defined() ? parameter.grad().reshape({-1}).to(at::kFloat)
                                               : torch::zeros({parameter.numel()}));
  }
  return torch::cat(parts);
}

void set_gradients(Sgd& optimizer, const Tensor& flat) {
  std::int64_t begin = 0;
  for (auto& [name, parameter] : optimizer.parameters()) {
    const Tensor part = flat.narrow(0, begin, parameter.numel()).view(parameter.sizes());
    parameter.mutable_grad() = part.to(parameter.scalar_type());
    begin += parameter.numel();
  }
}

}  // namespace

void image_by_image_gradients(Detector& detector,
                              Sgd& optimizer,
                              Communicator& communicator,
                              const Batch& batch,
                              const StepOptions& options,
                              StepResult& result) {
  Timer timer;
  const std::int64_t count = batch.images.count();
  const std::vector<Batch> images = split_batch(padded_like_all(batch, communicator), count);
  std::vector<LossMap> terms(images.size());
  PartialLosses losses{.talks_in_model = options.talks_in_model};
  for (std::size_t i = 0; i < images.size() && losses.failure.empty(); ++i) {
    guarded(losses, [&] {
      terms[i] = detector.losses(images[i].images, images[i].targets);
      losses.add(terms[i]);
    });
  }
  const std::vector<double> whole =
      exchange_losses(losses, communicator, options.stop_requested, result);
  result.forward_s += timer.restart();
  if (!result.nonfinite.empty()) {
    return;
  }
  communicator.enter("backward", options.iteration);
  TreeSum sum(count);
  for (const std::int64_t i : TreeSum::order_of(count)) {
    LossMap& image = terms[static_cast<std::size_t>(i)];
    optimizer.zero_grad();
    part_of_whole(image, whole, result.loss_scale).backward();
    image.clear();
    const torch::NoGradGuard no_grad;
    sum.push(flat_gradient(optimizer));
  }
  const torch::NoGradGuard no_grad;
  set_gradients(optimizer, sum.total());
  if (options.reducer != nullptr) {
    options.reducer->start(result.loss_scale);
    result.reduction = options.reducer->finish();
  }
  result.backward_s += timer.restart();
}

}  // namespace detforge
