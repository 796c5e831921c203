#include "cli/training_cli.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <zip.h>

namespace detforge::test {

namespace fs = std::filesystem;

std::string tensor_bytes(const fs::path& checkpoint) {
  int error = 0;
  zip_t* archive = zip_open(checkpoint.c_str(), ZIP_RDONLY, &error);
  if (archive == nullptr) {
    throw std::runtime_error("not a whole zip file: " + checkpoint.string());
  }
  std::string all;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t stat;
    zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &stat);
    if (std::string(stat.name).find("/data/") == std::string::npos) {
      continue;
    }
    std::string bytes(stat.size, '\0');
    zip_file_t* file = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    zip_fread(file, bytes.data(), bytes.size());
    zip_fclose(file);
    all += stat.name + bytes;
  }
  zip_close(archive);
  return all;
}

void wait_until(pid_t child, const std::function<bool()>& there) {
  while (!there()) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      throw std::runtime_error("the run ended early with status " + std::to_string(status));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace detforge::test
