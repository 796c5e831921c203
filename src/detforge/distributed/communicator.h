#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "detforge/core/error.h"
#include "detforge/core/tensor.h"

namespace detforge {

/// A rank is gone, stopped, too slow, or has failed: what() names it, its host and what it did
/// last. The ranks cannot talk to each other any more; what this rank holds is still whole.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// The only way ranks talk to each other. World size 1 is not special: its operations return their
/// input. Every rank must make the same calls in the same order, from one thread; which calls must
/// never depend on data. Operations block, and throw CommunicationError once a rank has failed or
/// kept the others waiting for longer than the deadline.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t world_size() const = 0;
  /// Replaces `tensor` on every rank by the sum over ranks, in place; the same bits on all ranks.
  /// Contiguous; f64, f32, f16 or int64.
  virtual void all_reduce_sum_(Tensor& tensor) = 0;
  /// Replaces `tensor` on every rank by rank `root`'s, in place.
  virtual void broadcast_(Tensor& tensor, std::int64_t root) = 0;
  /// Row i of the result is row rank() of rank i's `rows` [world size, n], of any type.
  virtual Tensor all_to_all(const Tensor& rows) = 0;
  /// Row i of the result is rank i's `row` [n], of any type and the same size everywhere.
  virtual Tensor all_gather(const Tensor& row) = 0;
  /// Every rank's bytes, by rank, on rank 0; nothing on the others.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;
  /// Returns when every rank has called it. Patient: the deadline runs only while a rank that is
  /// waited for makes no progress(), and not while it is in serial_work().
  virtual void barrier() = 0;

  /// A communicator of the same ranks whose calls have an order of their own, for another thread.
  virtual std::unique_ptr<Communicator> channel(const std::string& name) = 0;

  /// Tells who waits for this rank what it is doing, from here on: "forward", iteration 12. `phase`
  /// is a string literal.
  virtual void enter(const char* phase, std::int64_t iteration) = 0;
  /// The rank is alive and getting on, inside a phase.
  virtual void progress() = 0;
  /// As enter(), for what may take this rank any time while the others wait.
  virtual void serial_work(const char* phase) = 0;
  /// Tells the others that this rank ends because of `reason`, so that they need not wait.
  virtual void give_up(const std::string& reason) = 0;
  /// After a failure: true on one of the ranks that still live, which then saves what all of them
  /// have. Rank 0 is asked first.
  virtual bool claim_rescue() = 0;
};

}  // namespace detforge
