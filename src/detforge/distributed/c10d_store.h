#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace detforge {

/// What process_group.cpp needs of a KeyStore, kept out of its header.
class HasC10dStore {
 public:
  virtual ~HasC10dStore() = default;
  virtual c10::intrusive_ptr<c10d::Store> c10d_store() const = 0;
};

}  // namespace detforge
