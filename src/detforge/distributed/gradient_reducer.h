#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "detforge/distributed/communicator.h"
#include "detforge/distributed/power_sgd.h"
#include "detforge/distributed/reduce.h"

namespace detforge {

struct GradientReducerOptions {
  std::int64_t bucket_bytes = 8 << 20;  ///< gradients that travel together
  Compression compression = Compression::kNone;
  std::int64_t power_sgd_rank = 4;  ///< columns of each factor
  bool is_deterministic = false;    ///< sums in the order of tree_all_reduce_
};

/// Times in seconds of one backward pass.
struct ReductionTimes {
  double communication_s = 0;  ///< spent on sums over ranks, most of it beside the backward pass
  double exposed_s = 0;        ///< of it, what the step waited for
  std::int64_t bytes = 0;      ///< that this rank handed to the network
};

/// Sums the gradients of a module over ranks while its backward pass still computes others.
/// Parameters are put into buckets in the order in which their gradients come (of the first pass,
/// which all ranks then take from rank 0); a thread of its own sums full buckets, in order, on a
/// channel of its own. Which sums are made never depends on data: a parameter without gradient
/// counts as zeros. Not thread-safe.
///   GradientReducer reducer(parameters, communicator, {});
///   reducer.start();  loss.backward();  reducer.finish();  // gradients are sums over ranks
/// Ref: Li et al., PyTorch Distributed, arXiv:2006.15704, sec. 3.2.
class GradientReducer {
 public:
  GradientReducer(std::vector<std::pair<std::string, Tensor>> parameters,
                  Communicator& communicator,
                  GradientReducerOptions options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// The next backward pass is the step's last: its gradients are final. `loss_scale` is what they
  /// are multiplied by.
  void start(double loss_scale = 1);
  /// Hands over what did not come, waits for all sums and puts them into the gradients. Throws what
  /// the communicator threw.
  ReductionTimes finish();

 private:
  class State;
  std::shared_ptr<State> state_;  ///< hooks of the parameters, which live longer, hold it weakly
};

}  // namespace detforge
