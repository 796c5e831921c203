#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "detforge/serialize/value.h"

namespace detforge {

/// Where the numbers of tensors come from while a pickle of torch.save is read.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  /// The storage `key` as a contiguous [numel] tensor; called once for each mention in the pickle,
  /// so an implementation must give the same memory for the same key. Throws Error if the file has
  /// no such storage.
  virtual Tensor load(const std::string& key, at::ScalarType dtype, std::int64_t numel) = 0;
};

/// Reads pickles, protocols 0 to 5, as data. A pickle is a program for a small stack machine that
/// may call any Python function; this machine only knows how to build plain values, and the few
/// functions that torch.save and NumPy use to describe tensors are understood, not called. Anything
/// else is refused, by name: `the file wants to call builtins.print; DetForge never executes
/// pickled code`.
///   NumPy arrays and torch tensors/parameters    -> Tensor (uint16 -> int32, uint32 and uint64 ->
///   int64 where it fits) OrderedDict, defaultdict, argparse.Namespace -> dict      set, frozenset
///   -> list torch.Size -> tuple      torch.device, torch.dtype -> string ("cuda:0",
///   "torch.float32") NumPy scalars -> bool, int, double           state set on an OrderedDict
///   (_metadata) is dropped
/// Hostile input ends in an Error: every read is bounds-checked; nesting, the number of objects and
/// the memory asked for are limited by the size of the input.
class Unpickler {
 public:
  /// Borrows both; `storages` may be null where there are none (model-zoo pickles).
  Unpickler(std::string_view input, StorageSource* storages) : input_(input), storages_(storages) {}

  /// Reads one pickle from the current position; it can be called again for what follows it.
  Value load();

  /// Bytes read so far: the legacy torch.save container keeps several pickles and then raw numbers.
  std::size_t position() const { return position_; }

 private:
  std::string_view input_;
  StorageSource* storages_;
  std::size_t position_ = 0;
};

}  // namespace detforge
