#include "detforge/distributed/process_place.h"

#include <map>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/distributed/fault_drill.h"
#include "detforge/distributed/network.h"

namespace detforge {
namespace {

std::optional<ProcessPlace> place_in(const std::map<std::string, std::string>& variables) {
  return place_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const std::map<std::string, std::string>& variables) {
  try {
    place_in(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ProcessPlace, OfOneProcessThereIsNone) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  // A batch script of SLURM is one process, whatever its job has.
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST(ProcessPlace, OfTorchrun) {
  const auto place = place_in({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->world_size, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_world_size, 4);
  EXPECT_EQ(place->master_addr, "10.0.0.1");
  EXPECT_EQ(place->master_port, 29500);
  EXPECT_FALSE(place->serves_store);
  EXPECT_EQ(place->attempt, "2");
  const auto by_hand =
      place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1234"}});
  EXPECT_TRUE(by_hand->serves_store);
}

TEST(ProcessPlace, OfSlurm) {
  const auto place = place_in({{"SLURM_PROCID", "9"},
                               {"SLURM_STEP_NUM_TASKS", "16"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_STEP_TASKS_PER_NODE", "8(x2)"},
                               {"SLURM_STEP_NODELIST", "gpu[003-004]"},
                               {"SLURM_JOB_ID", "4711"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->master_addr, "gpu003");
  EXPECT_EQ(place->local_world_size, 8);
  EXPECT_GE(place->master_port, 20000);
  EXPECT_EQ(first_slurm_node("gpu[003-007,9],x1"), "gpu003");
  EXPECT_EQ(first_slurm_node("a1,b2"), "a1");
  EXPECT_EQ(first_slurm_node("n[7]"), "n7");
  EXPECT_EQ(first_slurm_node("alone"), "alone");
}

TEST(ProcessPlace, RefusesWhatMakesNoSense) {
  EXPECT_NE(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("RANK is \"2\""), std::string::npos);
  EXPECT_NE(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).find("RANK is \"x\""), std::string::npos);
  EXPECT_NE(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).find("not where they meet"),
            std::string::npos);
  EXPECT_NE(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}})
                .find("MASTER_PORT is not"),
            std::string::npos);
}

TEST(FieldReportF61, TheInterfaceIsTheOneOnTheWayToTheMaster) {
  EXPECT_EQ(local_address_towards("127.0.0.1", 80), "127.0.0.1");
  EXPECT_EQ(local_address_towards("localhost", 80).substr(0, 4) == "127." ||
                local_address_towards("localhost", 80) == "::1",
            true);
  EXPECT_THROW(local_address_towards("no.such.host.invalid", 80), Error);
  EXPECT_EQ(choose_local_address("lo", "10.0.0.1", 80), "127.0.0.1");
  EXPECT_EQ(choose_local_address("127.0.0.1", "10.0.0.1", 80), "127.0.0.1");
}

TEST(FaultDrill, IsReadAndRefused) {
  const FaultDrill drill = FaultDrill::parse("rank=3,phase=gradient sum,iteration=7,do=slow:2.5");
  EXPECT_EQ(drill.rank, 3);
  EXPECT_EQ(drill.phase, "gradient sum");
  EXPECT_EQ(drill.iteration, 7);
  for (const char* text : {"", "rank=1", "rank=1,phase=forward,do=dance", "do=kill"}) {
    EXPECT_THROW(FaultDrill::parse(text), Error) << text;
  }
}

}  // namespace
}  // namespace detforge
