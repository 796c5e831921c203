#pragma once

#include <filesystem>

namespace detforge {

/// While an object lives, what this process writes to stdout and stderr goes to a file: the
/// terminal of a run belongs to rank 0. Appends; makes the folder. If the file cannot be written,
/// nothing changes.
class RankOutput {
 public:
  explicit RankOutput(const std::filesystem::path& file);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

 private:
  int stdout_ = -1, stderr_ = -1;  ///< what they were
};

}  // namespace detforge
