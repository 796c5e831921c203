#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detforge/core/tensor.h"

namespace detforge {

/// The only way ranks talk to each other. World size 1 is not special: its operations return their
/// input. Every rank must make the same calls in the same order; which calls must never depend on
/// data.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t world_size() const = 0;
  /// Replaces `tensor` on every rank by the sum over ranks, in place.
  virtual void all_reduce_sum_(Tensor& tensor) = 0;
  /// Replaces `tensor` on every rank by rank `root`'s, in place.
  virtual void broadcast_(Tensor& tensor, std::int64_t root) = 0;
  /// Every rank's bytes, by rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  virtual void barrier() = 0;
};

}  // namespace detforge
