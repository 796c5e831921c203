#include <zlib.h>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/zip_archive.h"

// Layout and numbers: PKWARE APPNOTE.TXT 6.3, sections 4.3.7 (local header), 4.3.12
// (directory), 4.3.14 to 16 (end records), 4.5.3 (zip64 extra field).
namespace detforge {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kLimit32 = 0xFFFFFFFF;
constexpr std::uint64_t kLocalHeaderBytes = 30;
constexpr std::uint64_t kExtraHeaderBytes = 4;
constexpr std::uint16_t kDosDate = 0x21;  // 1980-01-01, the first date that zip can say

/// Appends little-endian numbers.
class Record {
 public:
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  std::string bytes() const { return bytes_; }

 private:
  Record& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
    }
    return *this;
  }
  std::string bytes_;
};

std::uint32_t crc_of(const void* data, std::uint64_t size) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const unsigned char*>(data), size));
}

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path, bool force_zip64)
    : out_(path, std::ios::binary | std::ios::trunc), force_zip64_(force_zip64) {
  DETFORGE_CHECK(out_.good(), "the file cannot be made", "check the folder's permissions");
}

void ZipWriter::put(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  position_ += bytes.size();
}

void ZipWriter::add(const std::string& name, const void* data, std::uint64_t size) {
  const bool zip64 = force_zip64_ || size >= kLimit32 || position_ >= kLimit32;
  const Entry entry{name, crc_of(data, size), size, position_, zip64};
  Record extra;
  if (zip64) {
    extra.u16(1).u16(16).u64(size).u64(size);
  }
  // Padding inside an extra field named "FB" (as PyTorch's) brings the data to the next multiple
  // of 64.
  const std::uint64_t start =
      position_ + kLocalHeaderBytes + name.size() + extra.bytes().size() + kExtraHeaderBytes;
  const std::uint64_t padding = (kAlignment - start % kAlignment) % kAlignment;
  extra.u16(0x4246).u16(padding).text(std::string(padding, 'Z'));

  const std::uint64_t shown_size = zip64 ? kLimit32 : size;
  Record header;
  header.u32(0x04034b50).u16(zip64 ? 45 : 20).u16(0).u16(0).u16(0).u16(kDosDate).u32(entry.crc);
  header.u32(shown_size)
      .u32(shown_size)
      .u16(name.size())
      .u16(extra.bytes().size())
      .text(name)
      .text(extra.bytes());
  put(header.bytes());
  if (size != 0) {
    put({static_cast<const char*>(data), size});
  }
  entries_.push_back(entry);
}

std::string ZipWriter::directory_record(const Entry& entry) const {
  Record extra;
  if (entry.zip64) {
    extra.u16(1).u16(24).u64(entry.size).u64(entry.size).u64(entry.offset);
  }
  const std::uint64_t shown_size = entry.zip64 ? kLimit32 : entry.size;
  const std::uint64_t version = entry.zip64 ? 45 : 20;
  Record record;
  record.u32(0x02014b50)
      .u16(version)
      .u16(version)
      .u16(0)
      .u16(0)
      .u16(0)
      .u16(kDosDate)
      .u32(entry.crc);
  record.u32(shown_size).u32(shown_size).u16(entry.name.size()).u16(extra.bytes().size());
  record.u16(0).u16(0).u16(0).u32(0).u32(entry.zip64 ? kLimit32 : entry.offset);
  return record.text(entry.name).text(extra.bytes()).bytes();
}

std::string ZipWriter::end_records(std::uint64_t directory_start) const {
  const std::uint64_t count = entries_.size();
  const std::uint64_t size = position_ - directory_start;
  const bool zip64 =
      force_zip64_ || count >= 0xFFFF || directory_start >= kLimit32 || size >= kLimit32;
  Record record;
  if (zip64) {
    record.u32(0x06064b50)
        .u64(44)
        .u16(45)
        .u16(45)
        .u32(0)
        .u32(0)
        .u64(count)
        .u64(count)
        .u64(size)
        .u64(directory_start);
    record.u32(0x07064b50).u32(0).u64(position_).u32(1);
  }
  const std::uint64_t shown_count = zip64 ? 0xFFFF : count;
  record.u32(0x06054b50).u16(0).u16(0).u16(shown_count).u16(shown_count);
  record.u32(zip64 ? kLimit32 : size).u32(zip64 ? kLimit32 : directory_start).u16(0);
  return record.bytes();
}

void ZipWriter::finish() {
  const std::uint64_t directory_start = position_;
  for (const Entry& entry : entries_) {
    put(directory_record(entry));
  }
  put(end_records(directory_start));
  out_.close();
  DETFORGE_CHECK(!out_.fail(), "not everything could be written",
                 "check the space on the disk and the quota");
}

}  // namespace detforge
