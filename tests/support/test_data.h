#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace detforge::test {

/// The repository's root.
std::filesystem::path source_dir();

/// ../shared/data or $DETFORGE_TEST_DATA. Empty path if absent: use DETFORGE_REQUIRE_TEST_DATA.
std::filesystem::path test_data_dir();

/// Case folders of tests/golden and of $DETFORGE_PARITY_DIR (default ../shared/parity) whose
/// case.json says what `accept` wants to see. Recognised by content, never by a list of names; a
/// folder that is in both places counts once for each.
struct ParityCase {
  std::filesystem::path folder;
  nlohmann::json description;  ///< case.json
  std::string name() const { return folder.filename().string(); }
};
std::vector<ParityCase> parity_cases(bool (*accept)(const nlohmann::json& description));

/// A folder under the system's temporary folder, removed with its content when it goes out of
/// scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace detforge::test

/// Skips the test, by name, where the real data is not on this machine.
#define DETFORGE_REQUIRE_TEST_DATA(subfolder)                                    \
  if (!std::filesystem::exists(::detforge::test::test_data_dir() / (subfolder))) \
  GTEST_SKIP() << "no " << (subfolder) << " in DETFORGE_TEST_DATA (default ../shared/data)"
