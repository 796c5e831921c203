#include "detforge/distributed/process_place.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

using Getter = std::function<const char*(const char*)>;

/// The variables of one launcher; empty where it has none.
struct Launcher {
  const char *name, *rank, *world_size, *local_rank, *local_world_size, *job;
};
constexpr std::array kLaunchers = {
    Launcher{"torchrun or a script", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ""},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    Launcher{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_ID"},
    // Of a step: a batch script has SLURM_PROCID and SLURM_NTASKS, but is one process.
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_JOB_ID"},
};

std::int64_t number(const char* name,
                    std::string_view text,
                    std::int64_t least,
                    std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw Error(fmt::format("{} is \"{}\" in the environment", name, text),
                fmt::format("set it to a number from {} to {}", least, most), Error::Kind::kUsage);
  }
  return value;
}

/// In the range that programs may use freely; the same for all processes of a job.
std::uint16_t port_of_job(std::string_view job) {
  std::uint32_t hash = 2166136261U;
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return static_cast<std::uint16_t>(20000 + hash % 12000);
}

void find_meeting_place(const Launcher& launcher, const Getter& get, ProcessPlace& place) {
  const char* address = get("MASTER_ADDR");
  const char* port = get("MASTER_PORT");
  const char* job = *launcher.job == '\0' ? nullptr : get(launcher.job);
  const char* nodes = get("SLURM_STEP_NODELIST");
  if (address != nullptr) {
    place.master_addr = address;
  } else if (place.started_by == "srun" && nodes != nullptr) {
    place.master_addr = first_slurm_node(nodes);
  } else if (job == nullptr || place.local_world_size != place.world_size) {
    throw Error(
        fmt::format("{} says that there are {} processes, but not where they meet",
                    place.started_by, place.world_size),
        "set MASTER_ADDR to the address of rank 0's machine and MASTER_PORT to a free port there",
        Error::Kind::kUsage);
  }
  if (port != nullptr) {
    place.master_port = static_cast<std::uint16_t>(number("MASTER_PORT", port, 1, 65535));
  } else if (job != nullptr) {
    place.master_port = port_of_job(job);
  } else {
    throw Error("MASTER_ADDR is set, but MASTER_PORT is not",
                "set it to a port that is free on " + place.master_addr, Error::Kind::kUsage);
  }
}

std::optional<ProcessPlace> place_of(const Launcher& launcher, const Getter& get) {
  const char* rank = get(launcher.rank);
  const char* world_size = get(launcher.world_size);
  if (rank == nullptr || world_size == nullptr) {
    return std::nullopt;
  }
  ProcessPlace place{.started_by = launcher.name};
  place.world_size = number(launcher.world_size, world_size, 1, 1 << 20);
  place.rank = number(launcher.rank, rank, 0, place.world_size - 1);
  place.local_rank = place.rank;
  place.local_world_size = place.world_size;
  const char* local_rank = get(launcher.local_rank);
  const char* local_size = *launcher.local_world_size ? get(launcher.local_world_size) : nullptr;
  if (local_rank != nullptr) {
    place.local_rank = number(launcher.local_rank, local_rank, 0, place.rank);
  }
  if (local_size != nullptr) {
    place.local_world_size =
        number(launcher.local_world_size, local_size, place.local_rank + 1, place.world_size);
  } else if (const char* tasks = get("SLURM_STEP_TASKS_PER_NODE");
             tasks != nullptr && place.started_by == "srun") {
    // "4(x2),3": of the first nodes; a budget of threads needs no more precision.
    const std::string_view text = tasks;
    place.local_world_size = number("SLURM_STEP_TASKS_PER_NODE",
                                    text.substr(0, text.find_first_of("(,")), 1, place.world_size);
  }
  if (place.world_size == 1) {
    return std::nullopt;
  }
  find_meeting_place(launcher, get, place);
  const char* agent = get("TORCHELASTIC_USE_AGENT_STORE");
  const bool has_agent = agent != nullptr && std::string_view(agent) == "True";
  place.serves_store = place.rank == 0 && !has_agent;
  if (const char* restarts = get("TORCHELASTIC_RESTART_COUNT")) {
    place.attempt = restarts;
  }
  return place;
}

}  // namespace

std::optional<ProcessPlace> place_from_environment(const Getter& get) {
  for (const Launcher& launcher : kLaunchers) {
    if (auto place = place_of(launcher, get)) {
      return place;
    }
  }
  return std::nullopt;
}

std::optional<ProcessPlace> place_from_environment() {
  return place_from_environment([](const char* name) -> const char* {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  });
}

std::string first_slurm_node(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) {
    return list.substr(0, comma);
  }
  const std::size_t end = list.find_first_of("-,]", bracket + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

}  // namespace detforge
