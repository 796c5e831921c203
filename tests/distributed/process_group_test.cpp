#include "detforge/distributed/process_group.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/timer.h"
#include "detforge/distributed/single_process.h"
#include "distributed/ranks.h"

namespace detforge {
namespace {

void check_collectives(Communicator& communicator) {
  const auto rank = static_cast<double>(communicator.rank());
  const std::int64_t world = communicator.world_size();
  Tensor sum = torch::full({1000}, rank + 1, torch::kDouble);
  communicator.all_reduce_sum_(sum);
  EXPECT_TRUE(torch::equal(
      sum, torch::full({1000}, static_cast<double>(world * (world + 1) / 2), torch::kDouble)));
  Tensor half = torch::full({5}, 0.5, torch::kHalf);
  communicator.all_reduce_sum_(half);
  EXPECT_EQ(half[4].item<float>(), 0.5F * static_cast<float>(world));
  Tensor root = torch::full({3}, rank);
  communicator.broadcast_(root, world - 1);
  EXPECT_EQ(root[0].item<double>(), static_cast<double>(world - 1));
  // Row i goes to rank i: rank r sends 10 r + i.
  const Tensor rows = (torch::arange(world, torch::kFloat) + 10 * rank)
                          .view({world, 1})
                          .expand({world, 2})
                          .contiguous();
  const Tensor got = communicator.all_to_all(rows);
  const Tensor all = communicator.all_gather(torch::full({2}, rank, torch::kBFloat16));
  for (std::int64_t i = 0; i < world; ++i) {
    EXPECT_EQ(got[i][1].item<double>(), 10.0 * static_cast<double>(i) + rank);
    EXPECT_EQ(all[i][0].item<double>(), static_cast<double>(i));
  }
  const auto texts = communicator.gather(std::string(static_cast<std::size_t>(rank) * 1000, 'x'));
  EXPECT_EQ(texts.size(), communicator.rank() == 0 ? static_cast<std::size_t>(world) : 0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], std::string(i * 1000, 'x'));
  }
  communicator.barrier();
}

TEST(ProcessGroup, CollectivesOfEverySize) {
  SingleProcess alone;
  check_collectives(alone);
  for (const std::int64_t world : {2, 3, 5}) {
    test::Ranks ranks(world);
    EXPECT_EQ(ranks.run([](Communicator& communicator) {
      check_collectives(communicator);
      const auto other = communicator.channel("other");
      check_collectives(*other);
      check_collectives(communicator);
    }),
              0)
        << ranks.log(1);
  }
}

TEST(ProcessGroup, ARankThatFailsIsNamedWithItsPhaseOnAllRanks) {
  test::Ranks ranks(4);
  const Timer timer;
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    communicator.enter("loading data", 7);
    if (communicator.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      throw Error("cannot decode image 12", "repair it");
    }
    communicator.barrier();
  }),
            1);
  EXPECT_LT(timer.elapsed_s(), 10);
  for (const std::int64_t rank : {1, 3}) {
    EXPECT_NE(ranks.log(rank).find("rank 2 ("), std::string::npos) << ranks.log(rank);
    EXPECT_NE(ranks.log(rank).find("loading data of iteration 7 failed: cannot decode image 12"),
              std::string::npos)
        << ranks.log(rank);
  }
}

TEST(FieldReportF55, WritingToWhoIsGoneFailsInsteadOfKillingTheWriter) {
  test::Ranks ranks(2);
  EXPECT_EQ(ranks.run([](Communicator&) {
    std::array<int, 2> pipe = {};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    ::close(pipe[0]);
    EXPECT_EQ(::write(pipe[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }),
            0);
}

/// In a sum over ranks, a signal to rank 1. What the others say about it.
std::string what_rank_2_says(int signal, double at_most_s) {
  test::Ranks ranks(3);
  ranks.timeout = std::chrono::milliseconds(3000);
  ranks.options().grace_s = 4;
  const Timer timer;
  EXPECT_EQ(ranks.run([signal](Communicator& communicator) {
    communicator.enter("forward", 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // a heartbeat tells it
    if (communicator.rank() == 1) {
      ::raise(signal);
    }
    Tensor sum = torch::ones({100});
    communicator.all_reduce_sum_(sum);
  }),
            1);
  EXPECT_LT(timer.elapsed_s(), at_most_s);
  return ranks.log(2);
}

TEST(FieldReportF55, AKilledRankEndsTheOthersAtOnce) {
  const std::string said = what_rank_2_says(SIGKILL, 5);
  EXPECT_NE(said.find("rank 1 ("), std::string::npos) << said;
  EXPECT_NE(said.find("forward of iteration 3"), std::string::npos) << said;
}

/// Rank 2 reports its failure and lives on; the others wait for it, or for each other, through what
/// `way_of` gives. No socket ends here, no deadline comes and the launcher kills nobody: only the
/// report can wake them.
void expect_that_a_report_wakes(
    const std::function<std::unique_ptr<Communicator>(Communicator&)>& way_of) {
  test::Ranks ranks(6);
  ranks.timeout = std::chrono::seconds(60);
  ranks.options().grace_s = 90;
  EXPECT_EQ(ranks.run([&](Communicator& communicator) {
    if (communicator.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      communicator.give_up("out of luck");
    }
    const auto way = way_of(communicator);
    if (communicator.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::seconds(15));
      return;
    }
    const Timer timer;
    Tensor sum = torch::ones({1'000'000});
    EXPECT_THROW((way ? *way : communicator).all_reduce_sum_(sum), CommunicationError);
    EXPECT_LT(timer.elapsed_s(), 10) << "rank " << communicator.rank();
  }),
            1);
  for (const std::int64_t rank : {1, 3, 4, 5}) {
    EXPECT_EQ(ranks.log(rank).find("Failure"), std::string::npos) << ranks.log(rank);
  }
}

TEST(FieldReportF55, AReportedFailureWakesWhoWaitsLongBeforeTheDeadline) {
  expect_that_a_report_wakes([](Communicator&) { return nullptr; });
}

TEST(FieldReportF55, AReportedFailureEndsChannelsThatAreMadeLater) {
  expect_that_a_report_wakes([](Communicator& communicator) {
    std::this_thread::sleep_for(std::chrono::seconds(3));  // the report has reached all
    return communicator.channel("late");
  });
}

TEST(FieldReportF55, AStoppedRankEndsTheOthersAtTheDeadline) {
  const std::string said = what_rank_2_says(SIGSTOP, 12);
  EXPECT_NE(said.find("no sign of life (killed, stopped or cut off) of rank 1 ("),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("forward of iteration 3"), std::string::npos) << said;
}

TEST(FieldReportF55, ASlowRankIsToldFromADeadOne) {
  test::Ranks ranks(2);
  ranks.timeout = std::chrono::milliseconds(2000);
  ranks.options().grace_s = 1;
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    communicator.enter("loading data", 5);
    if (communicator.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(30));
    }
    Tensor sum = torch::ones({1});
    communicator.all_reduce_sum_(sum);
  }),
            1);
  EXPECT_NE(ranks.log(1).find("alive, but not here after"), std::string::npos) << ranks.log(1);
  EXPECT_NE(ranks.log(1).find("loading data of iteration 5"), std::string::npos) << ranks.log(1);
}

TEST(FieldReportF57, WhoWorksForLongerThanTheDeadlineIsWaitedFor) {
  test::Ranks ranks(3);
  ranks.timeout = std::chrono::milliseconds(1000);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    if (communicator.rank() == 0) {  // judging: no progress to tell of
      communicator.serial_work("judging");
      std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    } else if (communicator.rank() == 1) {  // slow, but getting on
      communicator.enter("evaluation", -1);
      for (int i = 0; i < 15; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        communicator.progress();
      }
    }
    communicator.barrier();
  }),
            0)
      << ranks.log(1) << ranks.log(2);
}

TEST(FieldReportF63, APartialLaunchSaysWhomItWaitsForAndEnds) {
  test::Ranks ranks(3);
  ranks.options().log_folder = ranks.folder.path();
  const Timer timer;
  const int status = launch_local_ranks(ranks.options(), [](const ProcessPlace& place) {
                       if (place.rank == 2) {
                         std::this_thread::sleep_for(std::chrono::seconds(5));
                         return 0;  // never meets the others
                       }
                       try {
                         join_process_group({.place = place,
                                             .timeout = std::chrono::milliseconds(2000),
                                             .patience = std::chrono::milliseconds(500)});
                       } catch (const CommunicationError& error) {
                         std::fprintf(stderr, "error: %s\n", error.what());
                         return 1;
                       }
                       return 0;
                     }).status;
  EXPECT_EQ(status, 1);
  EXPECT_LT(timer.elapsed_s(), 9);
  std::ifstream stream(ranks.folder.path() / "rank_1.log");
  const std::string log{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_NE(log.find("rank 1 is waiting for rank(s) 2 at 127.0.0.1:"), std::string::npos) << log;
  EXPECT_NE(log.find("rank(s) 2 of 3 did not come to 127.0.0.1:"), std::string::npos) << log;
}

TEST(ProcessGroup, RanksOfOtherSettingsAndTwoOfOneRankAreRefused) {
  test::Ranks ranks(2);
  ranks.options().log_folder = ranks.folder.path();
  const auto refusal = [&](bool same_rank) {
    std::filesystem::remove(ranks.folder.path() / "rank_1.log");
    launch_local_ranks(ranks.options(), [&](ProcessPlace place) {
      const std::string agreement = place.rank == 0 || same_rank ? "version 1" : "version 2";
      place.rank = same_rank ? 0 : place.rank;
      try {
        join_process_group(
            {.place = place, .timeout = std::chrono::milliseconds(3000), .agreement = agreement});
      } catch (const Error& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
      }
      return 0;
    });
    std::ifstream stream(ranks.folder.path() / "rank_1.log");
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  EXPECT_NE(refusal(false).find("rank 1 has \"version 2\", but rank 0 has \"version 1\""),
            std::string::npos);
  const std::string twice = refusal(true);
  EXPECT_TRUE(twice.find("two processes claim to be rank 0 of 2") != std::string::npos ||
              twice.find("rank(s) 1 of 2 did not come") != std::string::npos)
      << twice;
}

}  // namespace
}  // namespace detforge
