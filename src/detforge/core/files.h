#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Every file that DetForge writes goes through here, so that a file is there completely or not at
/// all: written under a temporary name in the same folder, fsync, rename, fsync of the folder. All
/// functions throw Error naming the path and the system's reason.
namespace detforge::files {

/// The whole content. Throws if it is not a readable regular file.
std::string read(const std::filesystem::path& path);

/// Replaces `path` atomically by `content`; makes missing parent folders.
void write_atomic(const std::filesystem::path& path, std::string_view content);

/// As above for producers that want a path to write to: `write(temporary)` fills the temporary file
/// (same folder); it is synced and renamed when `write` returns, and removed when it throws.
void write_atomic(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path& temporary)>& write);

/// Writes a file without syncing it: only below the temporary folder of write_folder().
void write_plain(const std::filesystem::path& path, std::string_view content);

/// Adds many files to `folder`, each of which appears completely or not at all: `fill(temporary)`
/// puts them below a temporary folder in it, all are synced at once (one by one that takes
/// minutes for a dataset), then each is renamed to its place. Links are moved as links. Returns how
/// many. A file that is there already is an Error unless `replace`, before anything is moved; if
/// `fill` throws, nothing is moved.
std::size_t write_folder(const std::filesystem::path& folder,
                         bool replace,
                         const std::function<void(const std::filesystem::path& temporary)>& fill);

/// Appends one line and flushes it to the system (not fsync): for metrics.jsonl. A torn last line
/// can only be left by a crash of the machine; readers must skip it.
void append_line(const std::filesystem::path& path, std::string_view line);

/// Removes temporaries that a killed process left in `folder`; returns how many.
int remove_stale_temporaries(const std::filesystem::path& folder);

/// 64-bit FNV-1a; for cache keys and torn-file detection, not against attackers.
std::uint64_t fnv1a64(std::string_view bytes, std::uint64_t state = 0xCBF29CE484222325ULL);

/// An exclusive advisory lock on a file (made if missing), held until destruction. A second holder,
/// in this or another process, gets an Error that names the process that has it.
class Lock {
 public:
  explicit Lock(const std::filesystem::path& path);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace detforge::files
