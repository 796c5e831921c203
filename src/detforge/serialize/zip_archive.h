#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The zip container as torch.save uses it: entries are stored, never compressed.
namespace detforge {

/// Reads entries; each one's CRC is verified. Errors do not name the file: the caller does.
class ZipReader {
 public:
  /// Throws Error if it is no zip file or its directory (at the end) is missing: the file is cut
  /// short.
  explicit ZipReader(const std::filesystem::path& path);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  std::vector<std::string> names() const;
  /// Bytes of an entry, or nothing if there is none of this name.
  std::optional<std::int64_t> size(const std::string& name) const;
  /// Fills `to` with the whole entry, which must have size() `size`. Throws Error if it is
  /// compressed or damaged.
  void read(const std::string& name, void* to, std::int64_t size) const;

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
};

/// Writes entries one after the other. The same entries give the same bytes: no times are kept.
/// Data starts at multiples of 64 bytes, as PyTorch's own writer does, so that the file can be
/// mapped into memory.
class ZipWriter {
 public:
  /// `force_zip64` writes 64-bit sizes also where 32 bits suffice; for tests.
  explicit ZipWriter(const std::filesystem::path& path, bool force_zip64 = false);
  void add(const std::string& name, const void* data, std::uint64_t size);
  /// Writes the directory. Throws Error if anything could not be written (disk full).
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc;
    std::uint64_t size, offset;
    bool zip64;
  };
  void put(std::string_view bytes);
  std::string directory_record(const Entry& entry) const;
  std::string end_records(std::uint64_t directory_start) const;

  std::ofstream out_;
  std::uint64_t position_ = 0;
  bool force_zip64_;
  std::vector<Entry> entries_;
};

}  // namespace detforge
