#include "detforge/serialize/torch_file.h"

#include <new>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/containers.h"
#include "detforge/serialize/darknet_file.h"
#include "detforge/serialize/pickler.h"
#include "detforge/serialize/unpickler.h"
#include "detforge/serialize/zip_archive.h"

namespace detforge {
namespace {

std::string first_bytes(const std::filesystem::path& path, std::size_t count) {
  DETFORGE_CHECK(std::filesystem::is_regular_file(path), "no such file",
                 "check the path of the weights");
  std::ifstream in(path, std::ios::binary);
  DETFORGE_CHECK(in.good(), "the file cannot be opened", "check its permissions");
  std::string bytes(count, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

/// What people take for a weights file most often.
std::string describe_other_file(std::string_view head) {
  if (head.empty()) {
    return "the file is empty";
  }
  if (head.rfind("version https://git-lfs", 0) == 0) {
    return "the file is a Git LFS pointer, not the weights themselves";
  }
  return head[0] == '<' ? "the file is a web page, not weights"
                        : "the file is in no known weights format";
}

Value read_by_content(const std::filesystem::path& path) {
  const std::string head = first_bytes(path, 64);
  if (head.rfind("PK\x03\x04", 0) == 0) {
    return read_torch_zip(path);
  }
  const std::string content = files::read(path);
  if (is_torch_legacy(content)) {
    return read_torch_legacy(content);
  }
  if (is_safetensors(content)) {
    return read_safetensors(content);
  }
  if (is_darknet_file(content)) {
    return to_value(read_darknet_file(content));
  }
  constexpr std::string_view kPickleStarts = "\x80(]}c";
  DETFORGE_CHECK(
      !head.empty() && kPickleStarts.find(head[0]) != std::string_view::npos,
      describe_other_file(head),
      "give a .pth (torch.save), .pkl (Detectron2), .safetensors or .weights (Darknet) file");
  return Unpickler(content, nullptr).load();
}

}  // namespace

Value read_torch_file(const std::filesystem::path& path) {
  try {
    return read_by_content(path);
  } catch (Error& error) {
    error.add_where(path.string());
    throw;
  } catch (const c10::Error& error) {
    throw Error(fmt::format("a tensor cannot be made: {}", error.what_without_backtrace()),
                "the file is damaged: get it again")
        .add_where(path.string());
  } catch (const std::bad_alloc&) {
    throw Error("not enough memory for the file's content", "free memory or use a smaller file")
        .add_where(path.string());
  }
}

void write_torch_file(const std::filesystem::path& path, const Value& value) {
  constexpr std::string_view kVersion = "3\n";
  files::write_atomic(path, [&](const std::filesystem::path& temporary) {
    try {
      Pickler pickler;
      const std::string pickle = pickler.dump(value);
      ZipWriter zip(temporary);
      zip.add("archive/data.pkl", pickle.data(), pickle.size());
      for (std::size_t i = 0; i < pickler.storages().size(); ++i) {
        const Tensor& storage = pickler.storages()[i];
        zip.add(fmt::format("archive/data/{}", i), storage.data_ptr(), storage.nbytes());
      }
      zip.add("archive/version", kVersion.data(), kVersion.size());
      zip.finish();
    } catch (Error& error) {
      error.add_where(path.string());
      throw;
    }
  });
}

}  // namespace detforge
