#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace detforge {

/// All calls of one op.
struct OpTime {
  std::string name;  ///< "aten::add", "ConvolutionBackward0", "detforge::conv2d"
  std::int64_t calls = 0;
  double self_s = 0;  ///< seconds in the op itself, without the ops that it called
};

/// Times what runs while it lives, on every thread: LibTorch's ops, the nodes of backward (an
/// autograd function of our own, `struct Name : torch::autograd::Function<Name>`, is "Name
/// backward"), and every scope marked by `RECORD_FUNCTION("detforge::name", {})`. Costs about a
/// microsecond an op, so keep it out of measured steps. At most one at a time.
///   OpProfile profile;
///   train_step(...);
///   for (const OpTime& op : profile.by_self_time()) ...
class OpProfile {
 public:
  /// Throws Error if another one lives.
  OpProfile();
  ~OpProfile();
  OpProfile(const OpProfile&) = delete;
  OpProfile& operator=(const OpProfile&) = delete;

  /// The ops that have ended so far, the longest first; of equal times by name.
  std::vector<OpTime> by_self_time() const;

 private:
  std::uint64_t callback_;
};

}  // namespace detforge
