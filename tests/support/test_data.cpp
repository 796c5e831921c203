#include "support/test_data.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge::test {
namespace {

std::filesystem::path from_environment(const char* variable,
                                       const std::filesystem::path& fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? std::filesystem::path(value) : fallback;
}

void collect(const std::filesystem::path& root,
             bool (*accept)(const nlohmann::json&),
             std::vector<ParityCase>& out) {
  if (!std::filesystem::is_directory(root)) {
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::filesystem::path file = entry.path() / "case.json";
    if (!std::filesystem::exists(file)) {
      continue;
    }
    auto description = nlohmann::json::parse(files::read(file));
    if (accept(description)) {
      out.push_back({entry.path(), std::move(description)});
    }
  }
}

}  // namespace

std::filesystem::path source_dir() {
  return DETFORGE_SOURCE_DIR;
}

std::filesystem::path test_data_dir() {
  return from_environment("DETFORGE_TEST_DATA", source_dir().parent_path() / "shared" / "data");
}

std::vector<ParityCase> parity_cases(bool (*accept)(const nlohmann::json&)) {
  std::vector<ParityCase> cases;
  collect(source_dir() / "tests" / "golden", accept, cases);
  collect(from_environment("DETFORGE_PARITY_DIR", source_dir().parent_path() / "shared" / "parity"),
          accept, cases);
  std::sort(cases.begin(), cases.end(),
            [](const auto& a, const auto& b) { return a.folder < b.folder; });
  return cases;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "detforge-test-XXXXXX").string();
  DETFORGE_CHECK(::mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder",
                 "check TMPDIR");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace detforge::test
