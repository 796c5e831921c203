#pragma once

#include <string>

#include "detforge/structures/batch.h"

namespace detforge {

/// An endless stream of training batches that can continue anywhere in O(1).
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch; blocks while the loader threads work. Rethrows what a loader thread threw.
  virtual Batch next() = 0;
  /// The position after the batch that next() returned last (JSON text); prefetched batches do not
  /// count.
  virtual std::string state() const = 0;
  /// Continues after the batch for which `state` was taken: the following batches are bit-identical
  /// to those of an uninterrupted run, for any number of loader threads.
  virtual void restore(const std::string& state) = 0;
};

}  // namespace detforge
