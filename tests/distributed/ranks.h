#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "detforge/distributed/local_launcher.h"
#include "detforge/distributed/process_group.h"
#include "support/test_data.h"

namespace detforge::test {

/// Real processes that meet over real sockets; each runs `work` with its communicator. The exit
/// status of the launcher: 0 if no rank failed an expectation or threw.
class Ranks {
 public:
  explicit Ranks(std::int64_t count) { options_.local_ranks = count; }
  LaunchOptions& options() { return options_; }
  std::chrono::milliseconds timeout{20'000};

  int run(const std::function<void(Communicator&)>& work) {
    options_.log_folder = folder.path() / "logs";
    return launch_local_ranks(options_,
                              [&](const ProcessPlace& place) {
                                try {
                                  const auto communicator = join_process_group(
                                      {.place = place,
                                       .timeout = timeout,
                                       .heartbeat = std::chrono::milliseconds(100)});
                                  try {
                                    work(*communicator);
                                    communicator->barrier();
                                  } catch (const CommunicationError&) {
                                    throw;
                                  } catch (const std::exception& error) {
                                    communicator->give_up(error.what());
                                    throw;
                                  }
                                } catch (const std::exception& error) {
                                  std::fprintf(stderr, "error: %s\n", error.what());
                                  return 1;
                                }
                                return testing::Test::HasFailure() ? 1 : 0;
                              })
        .status;
  }

  /// What rank K > 0 wrote to stdout and stderr.
  std::string log(std::int64_t rank) const {
    std::ifstream stream(folder.path() / "logs" / ("rank_" + std::to_string(rank) + ".log"));
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  TemporaryFolder folder;

 private:
  LaunchOptions options_;
};

}  // namespace detforge::test
