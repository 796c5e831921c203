#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace detforge {

/// Which of the processes of a run this one is, and where they meet.
struct ProcessPlace {
  std::int64_t rank = 0, world_size = 1;
  std::int64_t local_rank = 0, local_world_size = 1;  ///< among those of this machine
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::string local_addr = {};  ///< of this machine's interface to the others; empty: by the route
  std::string started_by = "detforge";
  bool serves_store = false;   ///< this process is the meeting place itself
  bool has_own_cores = false;  ///< the usable cores are this rank's alone
  /// What keeps the keys of this attempt apart from those of an earlier one in the same store.
  std::string attempt = "0";
};

/// What torchrun, mpirun (Open MPI, MPICH, Intel MPI), srun or a script put into the environment:
///   RANK, WORLD_SIZE [, LOCAL_RANK, LOCAL_WORLD_SIZE], MASTER_ADDR, MASTER_PORT
///   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; PMI_RANK, PMI_SIZE, MPI_LOCALRANKID
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, SLURM_JOB_ID
/// MASTER_ADDR and MASTER_PORT are honoured with all of them; without them, srun's ranks meet on
/// the first node of the list and those of one machine on loopback, at a port made of the job's id.
/// Nothing if there is one process only. Throws Error (kUsage) for numbers that make no sense or no
/// place to meet.
///   get  reads a variable, null if it is not set (std::getenv)
std::optional<ProcessPlace> place_from_environment(
    const std::function<const char*(const char*)>& get);
std::optional<ProcessPlace> place_from_environment();

/// The first host of a SLURM node list: "gpu[003-007,9],x1" -> "gpu003".
std::string first_slurm_node(const std::string& list);

}  // namespace detforge
