#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cli/ranks_cli.h"

namespace detforge {
namespace {

using test::Clock;
using test::ProgramResult;
using test::RanksCli;
using test::read;
using test::seconds_since;
using test::Words;

/// A port that somebody listens on for as long as the object lives.
class BusyPort {
 public:
  BusyPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(socket_, 8);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~BusyPort() { ::close(socket_); }
  BusyPort(const BusyPort&) = delete;
  BusyPort& operator=(const BusyPort&) = delete;
  std::string port() const { return std::to_string(port_); }

 private:
  int socket_;
  int port_;
};

// F31 on one rank only.
TEST_F(RanksCli, ACorruptImageOnOneRankIsNamedAndEndsAll) {
  std::ofstream(folder_ / "shapes/train/000003.jpg", std::ios::trunc) << "no picture";
  const ProgramResult result =
      run(rank_words("run", 3, {"SOLVER.MAX_ITER", "4", "DATALOADER.CORRUPT_IMAGES", "stop"}));
  EXPECT_EQ(result.exit_code, 1);
  // Rank 0 may meet it first, when it draws the first batch.
  EXPECT_NE(result.err.find("failed: not an image that can be read"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("000003.jpg"), std::string::npos) << result.err;
  EXPECT_EQ(processes_of("run"), std::vector<std::string>());
}

TEST_F(RanksCli, FieldReportF54ASignalToTheLauncherLeavesNoProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const std::string name = "run" + std::to_string(signal);
    const pid_t launcher = start(rank_words(name, 3, {"SOLVER.MAX_ITER", "100000"}));
    test::wait_until(launcher,
                     [&] { return std::filesystem::exists(folder_ / name / "metrics.jsonl"); });
    const auto asked = Clock::now();
    ::kill(launcher, signal);
    int status = 0;
    ::waitpid(launcher, &status, 0);
    while (!processes_of(name).empty() && seconds_since(asked) < 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(processes_of(name), std::vector<std::string>()) << signal;
    if (signal != SIGKILL) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << read(folder_ / "err");
      EXPECT_TRUE(std::filesystem::exists(checkpoint(name)));
    }
  }
  // Starting again at once works.
  EXPECT_EQ(run({"train", "--resume", "run15", "--nproc", "2", "SOLVER.MAX_ITER", "100000",
                 "--eval-only"})
                .exit_code,
            0);
}

TEST_F(RanksCli, FieldReportF53ABusyPortIsNamedWithItsOwner) {
  const BusyPort busy;
  const auto start = Clock::now();
  const ProgramResult result =
      run(rank_words("run", 2, {"--master-port", busy.port(), "SOLVER.MAX_ITER", "2"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_NE(result.err.find("port " + busy.port() + " of 127.0.0.1 is in use, by pid " +
                            std::to_string(::getpid()) + " (cli_test)"),
            std::string::npos)
      << result.err;
  // A rank that another launcher started, which meets something that is not DetForge.
  Words words = train_words("run", {"SOLVER.MAX_ITER", "2"});
  const auto second = Clock::now();
  const ProgramResult other =
      run(words, {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + busy.port()});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_LT(seconds_since(second), 10);
  EXPECT_NE(other.err.find("is not a DetForge run"), std::string::npos) << other.err;
}

TEST_F(RanksCli, TwoLaunchesAtOnceChooseTheirOwnPorts) {
  const pid_t first = start(rank_words("first", 2, {"SOLVER.MAX_ITER", "3"}));
  const ProgramResult second = run(rank_words("second", 2, {"SOLVER.MAX_ITER", "3"}));
  EXPECT_EQ(second.exit_code, 0) << second.err;
  int status = 0;
  ::waitpid(first, &status, 0);
  EXPECT_EQ(status, 0) << read(folder_ / "err");
}

/// Rank by rank as torchrun, mpirun and srun start processes.
TEST_F(RanksCli, RanksOfOtherLaunchersMeet) {
  const auto words_of = [&](const std::string& output) {
    return train_words(output, {"SOLVER.MAX_ITER", "3", "--threads", "1"});
  };
  const std::vector<std::vector<Words>> launchers{
      {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=23391"},
       {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=23391"}},
      {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
        "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=prterun-test-1"},
       {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=prterun-test-1"}},
      {{"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0", "SLURM_JOB_ID=77",
        "SLURM_STEP_NODELIST=localhost"},
       {"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=1", "SLURM_JOB_ID=77",
        "SLURM_STEP_NODELIST=localhost"}}};
  for (std::size_t i = 0; i < launchers.size(); ++i) {
    const std::string output = "run" + std::to_string(i);
    const pid_t first = test::start_program(test::program_path(), words_of(output),
                                            {.folder = folder_.path(),
                                             .environment = launchers[i][0],
                                             .err_file = (folder_ / "err").string()});
    const ProgramResult second = run(words_of(output), launchers[i][1]);
    int status = 0;
    ::waitpid(first, &status, 0);
    EXPECT_EQ(status, 0) << read(folder_ / "err");
    EXPECT_EQ(second.exit_code, 0) << second.err;
    EXPECT_NE(read(folder_ / output / "logs/rank_1.log").find("rank 1 of 2, started by"),
              std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(checkpoint(output)));
  }
  const ProgramResult both = run(rank_words("both", 2, {}), launchers[0][1]);
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_NE(both.err.find("this process is rank 1 of 2"), std::string::npos) << both.err;
  const ProgramResult nowhere = run(words_of("nowhere"), {"RANK=1", "WORLD_SIZE=2"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_NE(nowhere.err.find("not where they meet"), std::string::npos) << nowhere.err;
}

/// torchrun's agent serves a store of its own, which ranks must not try to serve again. (Debian's
/// torchrun 1.13 itself fails under Python 3.11; this is the store that it would start.)
TEST_F(RanksCli, RanksMeetInTorchrunsStore) {
  const std::string agent =
      "import sys, time, torch.distributed as d\n"
      "store = d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)\n"
      "print(store.port, flush=True)\n"
      "time.sleep(60)\n";
  const pid_t server =
      test::start_program("/usr/bin/python3", {"-c", agent},
                          {.folder = folder_.path(), .out_file = (folder_ / "port").string()});
  test::wait_until(server, [&] { return read(folder_ / "port").ends_with('\n'); });
  std::string port = read(folder_ / "port");
  port.pop_back();
  const auto environment = [&](int rank) {
    const std::string text = std::to_string(rank);
    return Words{"RANK=" + text,
                 "WORLD_SIZE=2",
                 "LOCAL_RANK=" + text,
                 "LOCAL_WORLD_SIZE=2",
                 "MASTER_ADDR=127.0.0.1",
                 "MASTER_PORT=" + port,
                 "TORCHELASTIC_USE_AGENT_STORE=True",
                 "TORCHELASTIC_RESTART_COUNT=0"};
  };
  const Words words = train_words("run", {"SOLVER.MAX_ITER", "3", "--threads", "1"});
  const pid_t first = test::start_program(test::program_path(), words,
                                          {.folder = folder_.path(),
                                           .environment = environment(0),
                                           .err_file = (folder_ / "err").string()});
  const ProgramResult second = run(words, environment(1));
  int status = 0;
  ::waitpid(first, &status, 0);
  EXPECT_EQ(status, 0) << read(folder_ / "err");
  EXPECT_EQ(second.exit_code, 0) << second.err;
  kill_hard(server);
}

TEST_F(RanksCli, FieldReportF62SevenRanksGoOnWhereEightWereInterrupted) {
  Words words = rank_words("run", 8, {"SOLVER.IMS_PER_BATCH", "8", "SOLVER.MAX_ITER", "9"});
  const ProgramResult killed =
      run(words, {"DETFORGE_FAULT=rank=3,phase=forward,iteration=4,do=kill"});
  EXPECT_EQ(killed.exit_code, 1);
  EXPECT_NE(killed.err.find("rank 3 ("), std::string::npos) << killed.err;
  std::string said = killed.err;
  for (int rank = 1; rank < 8; ++rank) {
    said += read(folder_ / "run/logs" / ("rank_" + std::to_string(rank) + ".log"));
  }
  EXPECT_NE(said.find("saved the state after 4 steps"), std::string::npos) << said;
  const ProgramResult seven = run({"train", "--resume", "run", "--nproc", "7"});
  EXPECT_EQ(seven.exit_code, 0) << seven.err;
  EXPECT_NE(seven.err.find("resumed from"), std::string::npos);
  EXPECT_NE(seven.err.find("4 steps, 32 images"), std::string::npos) << seven.err;
  EXPECT_NE(seven.err.find("the run had 8 ranks, this one has 7"), std::string::npos) << seven.err;
  const ProgramResult whole =
      run(rank_words("whole", 1, {"SOLVER.IMS_PER_BATCH", "8", "SOLVER.MAX_ITER", "9"}));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  // The same images in the same steps, whatever the ranks: the places in the data are equal.
  const auto place = [&](const std::string& output) {
    const std::string bytes = read(checkpoint(output));
    const std::size_t begin = bytes.find("{\"images\":");
    return begin == std::string::npos ? ""
                                      : bytes.substr(begin, bytes.find('}', begin) - begin + 1);
  };
  EXPECT_NE(place("run").find("\"drawn\":"), std::string::npos);
  EXPECT_EQ(place("run"), place("whole"));
}

TEST_F(RanksCli, ItRestartsItselfFromTheLastCheckpoint) {
  // The fault comes with the first launch only: its iteration is behind the checkpoint.
  const ProgramResult result = run(
      rank_words("run", 2,
                 {"SOLVER.MAX_ITER", "6", "SOLVER.CHECKPOINT_PERIOD", "2", "--max-restarts", "1"}),
      {"DETFORGE_FAULT=rank=1,phase=forward,iteration=2,do=kill"});
  EXPECT_EQ(result.exit_code, 1) << "the drill comes again after the restart: " << result.err;
  EXPECT_NE(result.err.find("starting again (0 more times at most)"), std::string::npos)
      << result.err;
  const ProgramResult stopped = run(
      rank_words("other", 2,
                 {"SOLVER.MAX_ITER", "6", "SOLVER.CHECKPOINT_PERIOD", "2", "--max-restarts", "1"}),
      {"DETFORGE_FAULT=rank=1,phase=gradient sum,iteration=1,do=kill"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_NE(stopped.err.find("finished after 6 steps"), std::string::npos) << stopped.err;
}

TEST_F(RanksCli, FieldReportF60EvaluationsAreTheSameForAnyNumberOfRanks) {
  ASSERT_EQ(
      run({"make-shapes", "more", "--train", "1", "--val", "21", "--size", "96x96"}).exit_code, 0);
  ASSERT_EQ(run(train_words("run", {"SOLVER.MAX_ITER", "4"})).exit_code, 0);
  std::vector<std::string> results, metrics;
  for (const std::int64_t ranks : {1, 2, 4, 8, 64}) {
    const std::string output = "eval" + std::to_string(ranks);
    const ProgramResult evaluated =
        run({"eval", "run", "--output", output, "--nproc", std::to_string(ranks), "--threads", "1",
             "DATASETS.TEST_JSON", "[more/annotations/instances_val.json]", "DATASETS.TEST_IMAGES",
             "[more/val]"});
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    results.push_back(read(folder_ / output / "results.json"));
    metrics.push_back(read(folder_ / output / "metrics.json"));
  }
  EXPECT_GT(results[0].size(), 1000U);
  EXPECT_EQ(results, std::vector<std::string>(5, results[0]));
  EXPECT_EQ(metrics, std::vector<std::string>(5, metrics[0]));
}

TEST_F(RanksCli, ReferenceWorldSizeScalesARecipe) {
  const ProgramResult result =
      run(rank_words("run", 3,
                     {"SOLVER.REFERENCE_WORLD_SIZE", "1", "SOLVER.IMS_PER_BATCH", "2",
                      "SOLVER.BASE_LR", "0.001", "SOLVER.MAX_ITER", "9"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("IMS_PER_BATCH 2 -> 6, BASE_LR 0.001 -> 0.003, MAX_ITER 9 -> 3"),
            std::string::npos)
      << result.err;
}

/// tests/distributed/two_nodes.sh, or a skipped test where namespaces cannot be made.
#define RUN_TWO_NODES(mode, result)                                                           \
  const ProgramResult result = test::run_program(                                             \
      test::source_dir() / "tests/distributed/two_nodes.sh", {folder_.path().string(), mode}, \
      folder_.path(), {"DETFORGE_BIN=" + test::program_path().string()});                     \
  if (result.exit_code == 77) {                                                               \
    GTEST_SKIP() << "no right to make network namespaces, or no iproute2";                    \
  }

class RanksCliSlow : public RanksCli {};

TEST_F(RanksCliSlow, FieldReportF61TwoMachinesTrainWhateverTheirNameMeans) {
  RUN_TWO_NODES("train", result);
  EXPECT_EQ(result.exit_code, 0) << result.err << read(folder_ / "node0.log")
                                 << read(folder_ / "node1.log");
  const std::string said = read(folder_ / "node0.log");
  EXPECT_NE(said.find("addresses: 10.77.0.1 10.77.0.1 10.77.0.2 10.77.0.2"), std::string::npos)
      << said;
  EXPECT_NE(said.find("Final Performance images/sec : "), std::string::npos) << said;
}

TEST_F(RanksCliSlow, ACutCableEndsBothMachinesWithTheRightNames) {
  RUN_TWO_NODES("cut", result);
  EXPECT_EQ(result.exit_code, 0) << result.err << read(folder_ / "node0.log")
                                 << read(folder_ / "node1.log");
  const std::string first = read(folder_ / "node0.log"), second = read(folder_ / "node1.log");
  EXPECT_NE(first.find("no sign of life (killed, stopped or cut off) of rank 2 ("),
            std::string::npos)
      << first;
  EXPECT_NE(second.find("the meeting place of the ranks at 10.77.0.1:23333 does not answer"),
            std::string::npos)
      << second;
  EXPECT_LT(std::stoll(read(folder_ / "ended_at")) - std::stoll(read(folder_ / "cut_at")), 30);
}

TEST_F(RanksCli, FieldReportF61AnInterfaceThatIsNotThereIsAnErrorThatListsThem) {
  const ProgramResult bogus =
      run(rank_words("run", 2, {"SOLVER.MAX_ITER", "2", "--local-addr", "eth*"}));
  EXPECT_EQ(bogus.exit_code, 2) << bogus.err;
  EXPECT_NE(bogus.err.find("no network interface or address \"eth*\" (--local-addr)"),
            std::string::npos)
      << bogus.err;
  EXPECT_NE(bogus.err.find("lo (127.0.0.1)"), std::string::npos) << bogus.err;
  const ProgramResult variable =
      run(rank_words("run", 2, {"SOLVER.MAX_ITER", "2"}), {"GLOO_SOCKET_IFNAME=nothing0"});
  EXPECT_EQ(variable.exit_code, 2) << variable.err;
  EXPECT_NE(variable.err.find("\"nothing0\" (GLOO_SOCKET_IFNAME)"), std::string::npos)
      << variable.err;
  const ProgramResult named =
      run(rank_words("run", 2, {"SOLVER.MAX_ITER", "2"}), {"GLOO_SOCKET_IFNAME=lo"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
}

// Acceptance: 64 ranks meet, train, evaluate 21 images (43 ranks have none) and end.
TEST_F(RanksCliSlow, SixtyFourRanks) {
  ASSERT_EQ(
      run({"make-shapes", "more", "--train", "64", "--val", "21", "--size", "64x64"}).exit_code, 0);
  const ProgramResult result =
      run(rank_words("run", 64,
                     {"SOLVER.IMS_PER_BATCH", "64", "SOLVER.MAX_ITER", "20", "DATASETS.TRAIN_JSON",
                      "[more/annotations/instances_train.json]", "DATASETS.TRAIN_IMAGES",
                      "[more/train]", "DATASETS.TEST_JSON", "[more/annotations/instances_val.json]",
                      "DATASETS.TEST_IMAGES", "[more/val]"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("rank 0 of 64"), std::string::npos) << result.err;
  for (int rank = 1; rank < 64; ++rank) {
    EXPECT_NE(read(folder_ / "run/logs" / ("rank_" + std::to_string(rank) + ".log"))
                  .find("finished after 20 steps"),
              std::string::npos)
        << rank;
  }
}

}  // namespace
}  // namespace detforge
