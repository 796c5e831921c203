#include "detforge/core/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "detforge/core/error.h"

namespace detforge::files {
namespace {

constexpr std::string_view kTemporaryMark = ".detforge-tmp-";

[[noreturn]] void fail(const std::string& action,
                       const std::filesystem::path& path,
                       int error_number) {
  std::string fix = "check the path and its permissions";
  if (error_number == ENOSPC || error_number == EDQUOT) {
    fix = "free space on that disk or choose another output folder";
  } else if (error_number == ENOENT) {
    fix = "check the path: the file or its folder does not exist";
  }
  throw Error("cannot " + action + ": " + std::strerror(error_number), fix)
      .add_where(path.string());
}

void sync_path(const std::filesystem::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) {
    fail("open", path, errno);
  }
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  // Some file systems cannot sync a folder; that is no loss of the file itself.
  if (result != 0 && error_number != EINVAL) {
    fail("sync", path, error_number);
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    fail("make the folder", folder, error.value());
  }
}

void sync_file_system(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    fail("open", folder, errno);
  }
  const int result = ::syncfs(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  if (result != 0) {
    fail("sync the disk of", folder, error_number);
  }
}

/// Everything below the folder but folders, relative to it, sorted.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_symlink() || !entry.is_directory()) {
      names.push_back(entry.path().lexically_relative(folder));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct RemovedAtEnd {
  const std::filesystem::path& folder;
  explicit RemovedAtEnd(const std::filesystem::path& path) : folder(path) {}
  ~RemovedAtEnd() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;
};

void write_all(const std::filesystem::path& path, std::string_view content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    fail("write", path, errno);
  }
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      const int error_number = errno;
      ::close(descriptor);
      fail("write", path, error_number);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::close(descriptor) != 0) {
    fail("write", path, errno);
  }
}

}  // namespace

std::string read(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    fail("read", path,
         error ? error.value() : (std::filesystem::is_directory(path) ? EISDIR : ENOENT));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    fail("read", path, errno);
  }
  std::string content;
  content.resize(static_cast<std::size_t>(std::filesystem::file_size(path)));
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) {
    fail("read", path, EIO);
  }
  return content;
}

void write_atomic(const std::filesystem::path& path, std::string_view content) {
  write_atomic(path,
               [&](const std::filesystem::path& temporary) { write_all(temporary, content); });
}

void write_atomic(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path&)>& write) {
  const std::filesystem::path folder = folder_of(path);
  make_folder(folder);
  std::filesystem::path temporary = path;
  temporary += std::string(kTemporaryMark) + std::to_string(::getpid());
  try {
    write(temporary);
    sync_path(temporary, O_RDONLY);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      fail("rename the finished file to", path, errno);
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(folder, O_RDONLY | O_DIRECTORY);
}

void write_plain(const std::filesystem::path& path, std::string_view content) {
  make_folder(folder_of(path));
  write_all(path, content);
}

std::size_t write_folder(const std::filesystem::path& folder,
                         bool replace,
                         const std::function<void(const std::filesystem::path&)>& fill) {
  // In the folder, not beside it: a rename cannot cross a mount point.
  const std::filesystem::path temporary =
      folder / (std::string(kTemporaryMark) + std::to_string(::getpid()));
  const RemovedAtEnd guard{temporary};
  make_folder(temporary);
  fill(temporary);
  sync_file_system(temporary);
  const std::vector<std::filesystem::path> names = files_below(temporary);
  for (const std::filesystem::path& name : names) {
    if (!replace && std::filesystem::symlink_status(folder / name).type() !=
                        std::filesystem::file_type::not_found) {
      throw Error("the file is there already",
                  "choose another output folder, or replace what is there (--force)")
          .add_where((folder / name).string());
    }
  }
  for (const std::filesystem::path& name : names) {
    make_folder((folder / name).parent_path());
    if (::rename((temporary / name).c_str(), (folder / name).c_str()) != 0) {
      fail("rename the finished file to", folder / name, errno);
    }
  }
  sync_file_system(folder);
  return names.size();
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  make_folder(folder_of(path));
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    fail("append to", path, errno);
  }
  std::string text(line);
  text += '\n';
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int error_number = written < 0 ? errno : ENOSPC;
  ::close(descriptor);
  if (written != static_cast<ssize_t>(text.size())) {
    fail("append to", path, error_number);
  }
}

int remove_stale_temporaries(const std::filesystem::path& folder) {
  int removed = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().find(kTemporaryMark) != std::string::npos) {
      removed += ::unlink(entry.path().c_str()) == 0 ? 1 : 0;
    }
  }
  return removed;
}

std::uint64_t fnv1a64(std::string_view bytes, std::uint64_t state) {
  for (const char byte : bytes) {
    state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  }
  return state;
}

Lock::Lock(const std::filesystem::path& path) {
  make_folder(folder_of(path));
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail("open the lock", path, errno);
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t length = ::read(descriptor_, holder, sizeof(holder) - 1);
    ::close(descriptor_);
    throw Error(
        "in use by another run" + (length > 0 ? " (process " + std::string(holder) + ")" : ""),
        "wait for it, stop it, or choose another output folder")
        .add_where(path.string());
  }
  const std::string own = std::to_string(::getpid());
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, own.data(), own.size(), 0) != static_cast<ssize_t>(own.size())) {
    const int error_number = errno;
    ::close(descriptor_);
    fail("write the lock", path, error_number);
  }
}

Lock::~Lock() {
  ::close(descriptor_);
}

}  // namespace detforge::files
