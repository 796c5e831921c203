#include <algorithm>
#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/version.h>

#include "detforge/cli/commands.h"
#include "detforge/cli/diagnosis.h"
#include "detforge/cli/threads.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/fma_peak.h"
#include "detforge/core/timer.h"
#include "detforge/distributed/process_group.h"

namespace detforge {
namespace {

void examine_system(Diagnosis& out) {
  utsname name{};
  ::uname(&name);
  out.fact("system", fmt::format("{} {} {}", name.sysname, name.release, name.machine));
  out.fact("LibTorch", TORCH_VERSION);
}

void examine_blas(Diagnosis& out) {
  using Config = char* (*)();
  const auto config = reinterpret_cast<Config>(::dlsym(RTLD_DEFAULT, "openblas_get_config"));
  if (config != nullptr) {
    const std::string text = config();
    out.fact("BLAS", text);
#if defined(__x86_64__)
    if (text.find("Prescott") != std::string::npos && __builtin_cpu_supports("avx2") != 0) {
      out.warn(
          "OpenBLAS uses its SSE3 kernels (Prescott): linear layers are several times slower. "
          "Unset "
          "OPENBLAS_CORETYPE, or set it to Haswell");
    }
#endif
  } else if (::dlsym(RTLD_DEFAULT, "mkl_get_max_threads") != nullptr) {
    out.fact("BLAS", "MKL");
  } else {
    out.fact("BLAS", "reference or unknown");
    out.warn(
        "the BLAS in use is not OpenBLAS or MKL: linear layers are up to 20 times slower. "
        "Install libopenblas0-openmp (scripts/setup.sh does)");
  }
}

void examine_cpu(Diagnosis& out) {
  const int cores = usable_cores();
  std::string features;
#if defined(__x86_64__)
  for (const auto& [name, there] : {std::pair{"avx2", __builtin_cpu_supports("avx2")},
                                    {"fma", __builtin_cpu_supports("fma")},
                                    {"avx512f", __builtin_cpu_supports("avx512f")}}) {
    features += there != 0 ? fmt::format("{} ", name) : "";
  }
  if (__builtin_cpu_supports("avx2") == 0) {
    out.warn("this CPU has no AVX2: training will be several times slower than usual");
  }
#endif
  out.fact("CPU features", features.empty() ? "none of interest" : features);
  out.fact("cores usable", std::to_string(cores));
  out.fact("threads of LibTorch", std::to_string(at::get_num_threads()));
  out.fact("FMA peak",
           fmt::format("{:.0f} GFLOP/s ({}, {} threads)", measure_fma_peak_gflops(cores),
                       fma_peak_instruction_set(), cores));
  if (at::get_num_threads() > cores) {
    out.warn(fmt::format("{} threads on {} usable cores: set --threads {}", at::get_num_threads(),
                         cores, cores));
  }
}

void examine_space(Diagnosis& out,
                   const std::string& name,
                   const std::string& path,
                   double needed_gib,
                   const std::string& remedy) {
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) {
    out.fact(name, path + ": not there");
    return;
  }
  const double gib =
      static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize) / (1 << 30);
  out.fact(name, fmt::format("{:.1f} GiB free in {}", gib, path));
  if (gib < needed_gib) {
    out.warn(fmt::format("{}: only {:.2f} GiB free; {}", path, gib, remedy));
  }
}

/// The kernel marks the setting in force: "always [madvise] never".
void examine_huge_pages(Diagnosis& out) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (!std::filesystem::exists(path)) {
    return;
  }
  const std::string settings = files::read(path);
  const std::size_t begin = settings.find('[') + 1;
  const std::string setting = settings.substr(begin, settings.find(']') - begin);
  out.fact("huge pages", setting);
  if (setting == "never") {
    out.warn(
        "huge pages are off: fresh memory costs three times as much time. As root: echo madvise "
        "> " +
        path);
  }
}

void examine_memory(Diagnosis& out) {
  const std::string meminfo = [] {
    std::string text(8192, '\0');
    std::FILE* file = std::fopen("/proc/meminfo", "r");
    if (file == nullptr) {
      return std::string();
    }
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  }();
  const auto at = meminfo.find("MemAvailable:");
  if (at == std::string::npos) {
    return;
  }
  const double gib = std::stod(meminfo.substr(at + 13)) / (1 << 20);
  out.fact("memory available", fmt::format("{:.1f} GiB", gib));
  if (gib < 4) {
    out.warn(fmt::format(
        "{:.1f} GiB of memory available: a step of R50-FPN at 800x1344 needs about 4 GiB an image",
        gib));
  }
}

Diagnosis examine_machine() {
  Diagnosis diagnosis;
  configure_threads(0);
  diagnosis.fact("DetForge", DETFORGE_VERSION);
  examine_system(diagnosis);
  examine_cpu(diagnosis);
  examine_blas(diagnosis);
  examine_memory(diagnosis);
  examine_huge_pages(diagnosis);
  examine_space(
      diagnosis, "disk", std::filesystem::current_path().string(), 2.0,
      "an R50-FPN checkpoint with momentum takes 0.35 GiB: free space or set OUTPUT_DIR elsewhere");
  examine_space(diagnosis, "shared memory", "/dev/shm", 0.0, "");
  diagnosis.fact("devices", "cpu");
  return diagnosis;
}

/// Meets the other machines as a run would, and compares clocks.
void examine_network(const RankArguments& ranks, Diagnosis& out) {
  const ProcessPlace place{.rank = ranks.node_rank,
                           .world_size = ranks.nnodes,
                           .local_rank = 0,
                           .local_world_size = 1,
                           .master_addr = ranks.master_addr,
                           .master_port = static_cast<std::uint16_t>(ranks.master_port),
                           .local_addr = ranks.local_addr,
                           .serves_store = ranks.node_rank == 0};
  const auto communicator =
      join_process_group({.place = place,
                          .timeout = std::chrono::seconds(60),
                          .patience = std::chrono::seconds(5),
                          .agreement = std::string("DetForge ") + DETFORGE_VERSION});
  out.fact("machines", fmt::format("{} met at {}:{}, each with a way to each other", ranks.nnodes,
                                   ranks.master_addr, ranks.master_port));
  out.fact("version", std::string("the same on all: ") + DETFORGE_VERSION);
  communicator->barrier();
  const Tensor clocks =
      communicator->all_gather(torch::full({1}, wall_clock_s(), torch::kDouble)).view({-1});
  const double spread = (clocks.max() - clocks.min()).item<double>();
  out.fact("clocks", fmt::format("{:.2f} s apart at most", spread));
  if (spread > 2) {
    out.warn(fmt::format(
        "the clocks of the machines are {:.0f} s apart: logs will be hard to compare; run ntp",
        spread));
  }
  Tensor payload = torch::ones({4 << 20});
  communicator->all_reduce_sum_(payload);
  const Timer timer;
  communicator->all_reduce_sum_(payload);
  out.fact("sum of 16 MiB", fmt::format("{:.1f} ms", 1e3 * timer.elapsed_s()));
  communicator->barrier();
}

}  // namespace

int run_doctor(const DoctorArguments& arguments) {
  Diagnosis diagnosis;
  if (arguments.ranks.nnodes > 1) {
    DETFORGE_CHECK(
        arguments.ranks.master_port > 0 && arguments.ranks.node_rank < arguments.ranks.nnodes,
        "doctor --nnodes needs --node-rank, --master-addr and --master-port",
        "start it on all machines, each with its number from 0");
    examine_network(arguments.ranks, diagnosis);
  } else if (arguments.run.empty()) {
    diagnosis = examine_machine();
  } else {
    examine_run(arguments.run, diagnosis);
  }
  for (const auto& [name, value] : diagnosis.facts) {
    fmt::print("{:<22} {}\n", name, value);
  }
  fmt::print("\n");
  for (const std::string& warning : diagnosis.warnings) {
    fmt::print("warning: {}\n", warning);
  }
  if (diagnosis.warnings.empty()) {
    fmt::print("Nothing that will hurt was found.\n");
  }
  return 0;
}

}  // namespace detforge
