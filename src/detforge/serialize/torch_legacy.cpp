#include <cstring>
#include <set>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/containers.h"
#include "detforge/serialize/unpickler.h"

namespace detforge {
namespace {

/// The pickle of 0x1950a86a20f9469cfc6c, as every protocol from 2 on writes it: PROTO n, LONG1, ten
/// bytes, STOP.
constexpr std::string_view kMagic = "\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
constexpr std::size_t kMagicStart = 2;
constexpr std::int64_t kProtocol = 1001;
constexpr const char* kDamaged = "the file is damaged or cut short: get it again from its source";

/// Makes storages when the pickle names them; their numbers, which come after the pickle, are
/// filled in later.
class LaterStorages : public StorageSource {
 public:
  explicit LaterStorages(std::size_t file_size)
      : bytes_left_(static_cast<std::int64_t>(file_size)) {}

  Tensor load(const std::string& key, at::ScalarType dtype, std::int64_t numel) override {
    const auto known = storages_.find(key);
    if (known == storages_.end()) {
      const auto item_size = static_cast<std::int64_t>(c10::elementSize(dtype));
      DETFORGE_CHECK(numel >= 0 && numel <= bytes_left_ / item_size,
                     fmt::format("storage {} of {} elements is longer than the file", key, numel),
                     kDamaged);
      bytes_left_ -= numel * item_size;
      return storages_.emplace(key, at::empty({numel}, dtype)).first->second;
    }
    DETFORGE_CHECK(known->second.scalar_type() == dtype && known->second.numel() == numel,
                   fmt::format("storage {} is named with two sizes or types", key), kDamaged);
    return known->second;
  }

  /// Fills one storage from the front of `content`; returns what follows.
  std::string_view fill(const std::string& key, std::string_view content) {
    const auto found = storages_.find(key);
    DETFORGE_CHECK(found != storages_.end(), fmt::format("storage {} belongs to no tensor", key),
                   kDamaged);
    const Tensor storage = found->second;
    std::int64_t numel = -1;
    DETFORGE_CHECK(content.size() >= sizeof numel + storage.nbytes(),
                   fmt::format("storage {} is cut short", key), kDamaged);
    std::memcpy(&numel, content.data(), sizeof numel);
    DETFORGE_CHECK(
        numel == storage.numel(),
        fmt::format("storage {} has {} elements, the pickle says {}", key, numel, storage.numel()),
        kDamaged);
    if (storage.nbytes() != 0) {
      std::memcpy(storage.data_ptr(), content.data() + sizeof numel, storage.nbytes());
    }
    normalise_bools_(storage);
    filled_.insert(key);
    return content.substr(sizeof numel + storage.nbytes());
  }

  bool all_filled() const { return filled_.size() == storages_.size(); }

 private:
  std::int64_t bytes_left_;
  std::map<std::string, Tensor> storages_;
  std::set<std::string> filled_;
};

}  // namespace

bool is_torch_legacy(std::string_view content) {
  return content.size() > kMagicStart && content[0] == '\x80' &&
         content.substr(kMagicStart, kMagic.size()) == kMagic;
}

Value read_torch_legacy(std::string_view content) {
  const std::string_view after_magic = content.substr(kMagicStart + kMagic.size());
  LaterStorages storages(content.size());
  Unpickler unpickler(after_magic, &storages);
  const std::int64_t protocol = unpickler.load().item("the protocol number").integer();
  DETFORGE_CHECK(protocol == kProtocol, fmt::format("torch.save protocol {}", protocol),
                 "only 1001 is known");
  const Value machine = unpickler.load();
  if (const auto little_endian = machine.item("the machine's facts").find("little_endian")) {
    DETFORGE_CHECK(little_endian->boolean(), "the numbers are big-endian",
                   "save the weights again on a little-endian machine");
  }
  Value value = unpickler.load();
  const Value keys = unpickler.load();
  std::string_view numbers = after_magic.substr(unpickler.position());
  for (const Value& key : keys.item("the list of storages").list()) {
    numbers = storages.fill(key.item("a storage's key").string(), numbers);
  }
  DETFORGE_CHECK(storages.all_filled(), "the numbers of some tensors are missing", kDamaged);
  return value;
}

}  // namespace detforge
