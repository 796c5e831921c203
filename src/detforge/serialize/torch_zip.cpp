#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/containers.h"
#include "detforge/serialize/unpickler.h"
#include "detforge/serialize/zip_archive.h"

namespace detforge {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";
constexpr const char* kDamaged = "the file is damaged: get it again from its source";

/// What stands in front of /data.pkl: the name that torch.save gave the archive.
std::string archive_prefix(const ZipReader& zip) {
  std::string prefix;
  for (const std::string& name : zip.names()) {
    DETFORGE_CHECK(name.find("/constants.pkl") == std::string::npos,
                   "the file is a TorchScript program, not weights",
                   "save the weights in Python: torch.save(model.state_dict(), 'weights.pth')");
    if (prefix.empty() && name.size() > kPickleName.size()) {
      const std::size_t length = name.size() - kPickleName.size();
      if (name.compare(length, std::string::npos, kPickleName) == 0) {
        prefix = name.substr(0, length);
      }
    }
  }
  DETFORGE_CHECK(!prefix.empty(), "a zip file without data.pkl: not written by torch.save",
                 "give the file that torch.save wrote");
  return prefix;
}

class ZipStorages : public StorageSource {
 public:
  ZipStorages(const ZipReader& zip, std::string prefix, std::int64_t file_size)
      : zip_(zip), prefix_(std::move(prefix)), bytes_left_(file_size) {}

  Tensor load(const std::string& key, at::ScalarType dtype, std::int64_t numel) override {
    const auto known = storages_.find(key);
    Tensor storage = known != storages_.end() ? known->second : read(key, dtype);
    DETFORGE_CHECK(
        storage.scalar_type() == dtype && storage.numel() == numel,
        fmt::format("storage {} has {} elements, the pickle says {}", key, storage.numel(), numel),
        kDamaged);
    return storage;
  }

 private:
  Tensor read(const std::string& key, at::ScalarType dtype) {
    const std::string name = prefix_ + "/data/" + key;
    const std::optional<std::int64_t> size = zip_.size(name);
    DETFORGE_CHECK(size.has_value(), fmt::format("the zip entry {} is missing", name), kDamaged);
    const auto item_size = static_cast<std::int64_t>(c10::elementSize(dtype));
    // Stored entries cannot hold more than the file does, all together: else some overlap.
    DETFORGE_CHECK(*size >= 0 && *size <= bytes_left_ && *size % item_size == 0,
                   fmt::format("the zip entry {} has {} bytes", name, *size), kDamaged);
    bytes_left_ -= *size;
    Tensor storage = at::empty({*size / item_size}, dtype);
    zip_.read(name, storage.data_ptr(), *size);
    normalise_bools_(storage);
    storages_.emplace(key, storage);
    return storage;
  }

  const ZipReader& zip_;
  std::string prefix_;
  std::int64_t bytes_left_;
  std::map<std::string, Tensor> storages_;
};

}  // namespace

void normalise_bools_(const Tensor& tensor) {
  if (tensor.scalar_type() != at::kBool) {
    return;
  }
  auto* bytes = static_cast<unsigned char*>(tensor.data_ptr());
  std::transform(bytes, bytes + tensor.numel(), bytes,
                 [](unsigned char byte) { return static_cast<unsigned char>(byte != 0); });
}

Value read_torch_zip(const std::filesystem::path& path) {
  const ZipReader zip(path);
  const auto file_size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const std::string prefix = archive_prefix(zip);
  const std::string pickle_name = prefix + std::string(kPickleName);
  const std::int64_t size = zip.size(pickle_name).value_or(-1);
  DETFORGE_CHECK(size >= 0 && size <= file_size, "the entry data.pkl is longer than the file",
                 kDamaged);
  if (const auto order_size = zip.size(prefix + "/byteorder"); order_size && *order_size == 3) {
    std::string order(3, '\0');
    zip.read(prefix + "/byteorder", order.data(), 3);
    DETFORGE_CHECK(order != "big", "the numbers are big-endian",
                   "save the weights again on a little-endian machine");
  }
  std::string pickle(static_cast<std::size_t>(size), '\0');
  zip.read(pickle_name, pickle.data(), size);
  ZipStorages storages(zip, prefix, file_size);
  return Unpickler(pickle, &storages).load();
}

}  // namespace detforge
