#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/training_cli.h"

namespace detforge::test {

using Clock = std::chrono::steady_clock;

inline std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs of several ranks on a tiny dataset.
class RanksCli : public TrainingCli {
 protected:
  Words rank_words(const std::string& output, std::int64_t ranks, const Words& more) const {
    Words words = train_words(
        output, {"--nproc", std::to_string(ranks), "--threads", "1", "DATALOADER.NUM_WORKERS", "0",
                 "SOLVER.IMS_PER_BATCH", "6", "SOLVER.CHECKPOINT_PERIOD", "100"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Processes whose command line names this test's folder or an output in it.
  std::vector<std::string> processes_of(const std::string& output) const {
    std::vector<std::string> found;
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const std::string words = read(process.path() / "cmdline");
      std::error_code error;
      const auto folder = std::filesystem::read_symlink(process.path() / "cwd", error);
      if (!error && folder == folder_.path() && words.find(output) != std::string::npos &&
          words.find("detforge") != std::string::npos) {
        found.push_back(process.path().filename());
      }
    }
    return found;
  }
};

}  // namespace detforge::test
