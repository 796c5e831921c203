#pragma once

#include <map>
#include <string>
#include <vector>

#include "detforge/serialize/value.h"

namespace detforge {

/// Writes a Value as torch.save's data.pkl (protocol 2): tensors are named by storage number; their
/// bytes go into the container's entries data/0, data/1, ... by the caller.
class Pickler {
 public:
  /// The pickle. Throws Error for a tensor type that torch.save's storages do not have (complex,
  /// quantised), for text that is not UTF-8, and for nesting deeper than 100.
  std::string dump(const Value& value);

  /// The storages named so far, in order: contiguous, on the CPU.
  const std::vector<Tensor>& storages() const { return storages_; }

 private:
  void write(const Value& value, int depth);
  void write_integer(std::int64_t number);
  void write_double(double number);
  void write_text(const std::string& text);
  void write_bytes(const std::string& bytes);
  void write_list(const Value& value, const Value::List& items, int depth);
  void write_tensor(const Tensor& tensor);
  std::size_t storage_number(const Tensor& tensor);

  std::string out_;
  std::vector<Tensor> storages_;
  std::vector<Tensor> originals_;  ///< keeps memory alive, so that addresses stay unique
  std::map<std::string, std::size_t>
      seen_;  ///< what a tensor is (memory, shape, ...) -> its storage
};

}  // namespace detforge
