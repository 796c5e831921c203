#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace detforge::test {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out;
  std::string err;
};

/// $DETFORGE_BIN, the program under test (ctest sets it). Empty if not set.
std::filesystem::path program_path();

/// Where a program runs and what becomes of its output.
struct ProgramPlace {
  std::filesystem::path folder = std::filesystem::current_path();
  std::vector<std::string> environment = {};  ///< NAME=VALUE words added to this process's
  std::string out_file = "/dev/null", err_file = "/dev/null";
};

/// Starts `program` and returns its process id: wait for it, or kill it.
pid_t start_program(const std::filesystem::path& program,
                    const std::vector<std::string>& arguments,
                    const ProgramPlace& place);

/// Runs `program` with `arguments` in `folder` and waits. `environment` has NAME=VALUE words that
/// are added to this process's.
ProgramResult run_program(const std::filesystem::path& program,
                          const std::vector<std::string>& arguments,
                          const std::filesystem::path& folder = std::filesystem::current_path(),
                          const std::vector<std::string>& environment = {});

}  // namespace detforge::test

/// Skips the test, by name, when it is not told which program to test.
#define DETFORGE_REQUIRE_PROGRAM()                                \
  if (!std::filesystem::exists(::detforge::test::program_path())) \
  GTEST_SKIP() << "DETFORGE_BIN does not name a built program (build detforge)"
