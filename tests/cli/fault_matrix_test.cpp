#include <ostream>

#include <gtest/gtest.h>

#include "cli/ranks_cli.h"

namespace detforge {
namespace {

using test::Clock;
using test::ProgramResult;
using test::RanksCli;
using test::seconds_since;

/// A fault on one of three ranks, and what must come of it.
struct Cell {
  const char* fault;
  int exit_code;
  const char* says;  ///< on stderr of the launcher
  double at_most_s;
  bool leaves_checkpoint;
};

void PrintTo(const Cell& cell, std::ostream* stream) {
  *stream << cell.fault;
}

class FaultMatrixSlow : public RanksCli, public testing::WithParamInterface<Cell> {};

TEST_P(FaultMatrixSlow, EndsOrGoesOnAsDesigned) {
  const Cell& cell = GetParam();
  const auto start = Clock::now();
  const ProgramResult result =
      run(rank_words("run", 3, {"SOLVER.MAX_ITER", "8", "DISTRIBUTED.TIMEOUT_S", "5"}),
          {std::string("DETFORGE_FAULT=") + cell.fault});
  EXPECT_EQ(result.exit_code, cell.exit_code) << result.err;
  EXPECT_LT(seconds_since(start), cell.at_most_s) << result.err;
  EXPECT_NE(result.err.find(cell.says), std::string::npos) << result.err;
  EXPECT_EQ(processes_of("run"), std::vector<std::string>());
  EXPECT_EQ(std::filesystem::exists(checkpoint("run")), cell.leaves_checkpoint) << result.err;
  if (cell.exit_code != 0 && cell.leaves_checkpoint) {
    const ProgramResult resumed =
        run({"train", "--resume", "run", "--nproc", "2", "SOLVER.MAX_ITER", "10"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  }
}

constexpr double kAtOnce = 25, kAtDeadline = 40;  // on a busy machine, with start and evaluation
const Cell kCells[] = {
    {"rank=1,phase=loading data,iteration=3,do=kill", 1,
     "loading data of iteration 3: it was killed", kAtOnce, true},
    {"rank=1,phase=forward,iteration=3,do=kill", 1, "forward of iteration 3: it was killed",
     kAtOnce, true},
    {"rank=1,phase=gradient sum,iteration=3,do=kill", 1,
     "gradient sum of iteration 3: it was killed", kAtOnce, true},
    {"rank=1,phase=evaluation,do=kill", 1, "evaluation: it was killed", kAtOnce, true},
    {"rank=0,phase=checkpoint,do=kill", 1, "checkpoint of iteration 7: it was killed", kAtOnce,
     true},
    {"rank=0,phase=forward,iteration=3,do=kill", 1, "rank 0 (", kAtOnce, true},
    {"rank=1,phase=loading data,iteration=3,do=stop", 1,
     "no sign of life (killed, stopped or cut off) of rank 1", kAtDeadline, true},
    {"rank=2,phase=forward,iteration=3,do=stop", 1,
     "no sign of life (killed, stopped or cut off) of rank 2", kAtDeadline, true},
    {"rank=1,phase=gradient sum,iteration=3,do=stop", 1,
     "no sign of life (killed, stopped or cut off) of rank 1", kAtDeadline, true},
    {"rank=1,phase=evaluation,do=stop", 1, "no sign of life (killed, stopped or cut off) of rank 1",
     kAtDeadline, true},
    {"rank=0,phase=checkpoint,do=stop", 1, "no sign of life (killed, stopped or cut off) of rank 0",
     kAtDeadline, true},
    {"rank=2,phase=loading data,iteration=0,do=fail", 1,
     "loading data of iteration 0 failed: a fault on order", kAtOnce, false},
    {"rank=2,phase=loading data,iteration=3,do=slow:60", 1, "alive, but not here after",
     kAtDeadline, true},
    {"rank=0,phase=judging the evaluation,do=slow:8", 0, "finished after 8 steps", kAtDeadline,
     true},
    {"rank=1,phase=forward,iteration=3,do=full-disk", 0, "finished after 8 steps", kAtOnce, true},
    {"rank=0,phase=checkpoint,do=full-disk", 1, "not everything could be written", kAtOnce, true},
};
INSTANTIATE_TEST_SUITE_P(Cells, FaultMatrixSlow, testing::ValuesIn(kCells), [](const auto& info) {
  return "cell" + std::to_string(info.index);
});

}  // namespace
}  // namespace detforge
