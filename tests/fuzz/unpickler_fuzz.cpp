// Pickles of any bytes, with storages of any size that the pickle asks for up to a bound.

#include <ATen/ops/zeros.h>

#include "detforge/serialize/unpickler.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

class ZeroStorages : public StorageSource {
 public:
  Tensor load(const std::string& key, at::ScalarType dtype, std::int64_t numel) override {
    DETFORGE_CHECK(numel >= 0 && numel <= (1 << 12), "no storage " + key + " of this size", "");
    return at::zeros({numel}, dtype);
  }
};

/// Visits the whole tree and reads the last element of every tensor: the one that would lie
/// outside.
void look_at(const Value& value) {
  if (const Tensor* tensor = value.get_if<Tensor>(); tensor != nullptr && tensor->numel() > 0) {
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < tensor->dim(); ++i) {
      last += (tensor->size(i) - 1) * tensor->stride(i);
    }
    const auto bytes = static_cast<std::int64_t>(tensor->element_size());
    const volatile char* numbers = static_cast<const char*>(tensor->data_ptr());
    static_cast<void>(numbers[last * bytes + bytes - 1]);
  }
  if (const Value::List* items = value.items()) {
    for (const Value& item : *items) {
      look_at(item);
    }
  }
  if (const Value::Dict* entries = value.entries()) {
    for (const Value::Entry& entry : *entries) {
      look_at(entry.value);
    }
  }
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  ZeroStorages storages;
  Unpickler unpickler({reinterpret_cast<const char*>(data), size}, &storages);
  accepts([&] { look_at(unpickler.load()); });
  require(unpickler.position() <= size, "reading stays inside the input");
  return 0;
}
