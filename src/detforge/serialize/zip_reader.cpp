#include <fmt/format.h>
#include <zip.h>

#include "detforge/core/error.h"
#include "detforge/serialize/zip_archive.h"

namespace detforge {

struct ZipReader::Archive {
  zip_t* zip = nullptr;
  std::uint64_t file_size = 0;
  mutable std::uint64_t bytes_read = 0;
  ~Archive() { zip_discard(zip); }
};

namespace {

constexpr const char* kFix = "the file is damaged or cut short: get it again from its source";

/// Of an entry that exists.
zip_stat_t stat_entry(zip_t* zip, const std::string& name) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t kNeeded = ZIP_STAT_INDEX | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD;
  const bool known =
      zip_stat(zip, name.c_str(), 0, &stat) == 0 && (stat.valid & kNeeded) == kNeeded;
  DETFORGE_CHECK(known, fmt::format("the zip entry {} is missing", name), kFix);
  return stat;
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path) : archive_(std::make_unique<Archive>()) {
  int code = 0;
  archive_->zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (archive_->zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    throw Error(fmt::format("not a complete zip file: {}", reason), kFix);
  }
  archive_->file_size = std::filesystem::file_size(path);
}

ZipReader::~ZipReader() = default;

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> names;
  const zip_int64_t count = zip_get_num_entries(archive_->zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive_->zip, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

std::optional<std::int64_t> ZipReader::size(const std::string& name) const {
  if (zip_name_locate(archive_->zip, name.c_str(), 0) < 0) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(stat_entry(archive_->zip, name).size);
}

void ZipReader::read(const std::string& name, void* to, std::int64_t size) const {
  const zip_stat_t stat = stat_entry(archive_->zip, name);
  DETFORGE_CHECK(stat.comp_method == ZIP_CM_STORE,
                 fmt::format("the zip entry {} is compressed", name),
                 "torch.save does not compress: save the weights again in Python");
  std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(archive_->zip, stat.index, 0), zip_fclose);
  DETFORGE_CHECK(file != nullptr,
                 fmt::format("the zip entry {}: {}", name, zip_strerror(archive_->zip)), kFix);
  // libzip compares the CRC when it meets the end, hence the read of one byte more.
  char extra = 0;
  const bool intact = static_cast<std::int64_t>(stat.size) == size &&
                      (size == 0 || zip_fread(file.get(), to, stat.size) == size) &&
                      zip_fread(file.get(), &extra, 1) == 0;
  DETFORGE_CHECK(
      intact, fmt::format("the zip entry {} is damaged ({})", name, zip_file_strerror(file.get())),
      kFix);
}

}  // namespace detforge
