#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "detforge/serialize/value.h"

/// One checkpoint on disk: a torch.save zip with a seal. The seal is the zip's comment, so that
/// every reader of zips and Python's torch.load ignore it: `detforge-seal` with the iteration, the
/// metric and the FNV-1a checksum of all bytes before it. It says in one short read what a file is,
/// and in one long read whether it is whole.
namespace detforge {

struct CheckpointSeal {
  std::int64_t iteration = 0;    ///< steps done
  std::optional<double> metric;  ///< of best.pth: what made it the best
};

/// Writes `content` to `path`: temporary file, read back and compared with its checksums, sealed,
/// synced, renamed. Equal arguments give equal bytes. Throws Error (disk full, read-back failed);
/// an old file stays.
void write_checkpoint(const std::filesystem::path& path,
                      const Value& content,
                      const CheckpointSeal& seal);

/// The seal, without checking the rest; nothing if the file is missing or its end is not a seal.
std::optional<CheckpointSeal> peek_checkpoint(const std::filesystem::path& path);

/// The content after comparing every byte with the checksum. Throws Error naming the file and the
/// damage.
Value read_checkpoint(const std::filesystem::path& path);

}  // namespace detforge
