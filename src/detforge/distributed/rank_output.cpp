#include "detforge/distributed/rank_output.h"

#include <cstdio>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace detforge {

RankOutput::RankOutput(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    return;
  }
  std::fflush(nullptr);
  stdout_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  stderr_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
}

RankOutput::~RankOutput() {
  std::fflush(nullptr);
  for (const auto& [before, now] : {std::pair(stdout_, STDOUT_FILENO), {stderr_, STDERR_FILENO}}) {
    if (before >= 0) {
      ::dup2(before, now);
      ::close(before);
    }
  }
}

}  // namespace detforge
