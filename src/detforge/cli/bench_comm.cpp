#include "detforge/cli/bench_comm.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "detforge/cli/build.h"
#include "detforge/cli/made_up_batch.h"
#include "detforge/cli/median.h"
#include "detforge/cli/ranks.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/report_errors.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/models/synchronise_norms.h"
#include "detforge/train/step.h"

namespace detforge {
namespace {

using Json = nlohmann::ordered_json;

/// Seconds of a sum over ranks, the median of some.
double seconds_of_sum(Communicator& communicator, std::int64_t bytes, std::int64_t rounds) {
  Tensor tensor = torch::ones({bytes / 4});
  std::vector<double> seconds;
  for (std::int64_t round = 0; round < rounds + 2; ++round) {
    communicator.barrier();
    const Timer timer;
    communicator.all_reduce_sum_(tensor);
    if (round >= 2) {
      seconds.push_back(timer.elapsed_s());
    }
    tensor.fill_(1);
  }
  return median(seconds);
}

Json bench_sums(Communicator& communicator, std::int64_t rounds) {
  const bool prints = communicator.rank() == 0;
  const auto ranks = static_cast<double>(communicator.world_size());
  Json table = Json::array();
  if (prints) {
    fmt::print("sum over {} ranks\n{:>10} {:>10} {:>10} {:>12}\n", ranks, "KiB", "ms", "GB/s",
               "bus GB/s");
  }
  for (std::int64_t bytes = 4 << 10; bytes <= 64 << 20; bytes *= 4) {
    const double seconds = seconds_of_sum(communicator, bytes, rounds);
    const double rate = static_cast<double>(bytes) / seconds / 1e9;
    // What each rank sends and receives, if a sum is made in the least number of bytes.
    const double bus = rate * 2 * (ranks - 1) / ranks;
    table.push_back({{"bytes", bytes}, {"seconds", seconds}, {"bus_gb_s", bus}});
    if (prints) {
      fmt::print("{:>10} {:>10.3f} {:>10.3f} {:>12.3f}\n", bytes >> 10, seconds * 1e3, rate, bus);
    }
  }
  return table;
}

/// One rank's medians, in the order of the table's columns.
enum Column { kStep, kForward, kBackward, kComm, kExposed, kColumns };
using Row = std::array<double, kColumns>;

Row measure_steps(const BenchArguments& arguments,
                  const Config& config,
                  Communicator& communicator,
                  std::int64_t& bytes) {
  const auto detector = build_detector(config);
  synchronise_norms(*detector, communicator);
  settle_frozen_norms(*detector);
  detector->train();
  Sgd optimizer(*detector, sgd_options(config.solver));
  Precision precision(precision_options(config));
  precision.apply(*detector, optimizer);
  const auto reducer = build_reducer(config, optimizer, communicator);
  const Batch batch =
      collate(made_up_samples(arguments.size, std::max<std::int64_t>(arguments.batch, 1),
                              arguments.objects, class_count(config)),
              made_up_collate_options(collate_options(config)));
  std::array<std::vector<double>, kColumns> seconds;
  for (std::int64_t i = 0; i < arguments.iters + 2; ++i) {
    communicator.barrier();
    const Timer timer;
    // A rate of 0: random weights would diverge, and a step costs the same.
    const StepResult step = train_step(*detector, optimizer, communicator, batch,
                                       {.lr = 0,
                                        .precision = &precision,
                                        .reducer = reducer.get(),
                                        .is_deterministic = config.deterministic});
    if (i < 2) {
      continue;  // the order of the gradients is learnt
    }
    bytes = step.reduction.bytes;
    seconds[kStep].push_back(timer.elapsed_s());
    seconds[kForward].push_back(step.forward_s);
    seconds[kBackward].push_back(step.backward_s);
    seconds[kComm].push_back(step.reduction.communication_s);
    seconds[kExposed].push_back(step.reduction.exposed_s);
  }
  Row row;
  for (std::size_t column = 0; column < kColumns; ++column) {
    row[column] = median(seconds[column]);
  }
  return row;
}

/// Ranks whose own work takes 20 % longer than that of the rank in the middle.
std::vector<std::int64_t> stragglers(const Tensor& rows) {
  std::vector<double> work;
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank) {
    const double* row = rows[rank].data_ptr<double>();
    work.push_back(row[kForward] + row[kBackward] - row[kExposed]);
  }
  std::vector<std::int64_t> slow;
  for (std::size_t rank = 0; rank < work.size(); ++rank) {
    if (work[rank] > 1.2 * median(work)) {
      slow.push_back(static_cast<std::int64_t>(rank));
    }
  }
  return slow;
}

Json bench_steps(const BenchArguments& arguments,
                 const Config& config,
                 Communicator& communicator) {
  std::int64_t bytes = 0;
  const Row own = measure_steps(arguments, config, communicator, bytes);
  const Tensor rows = communicator.all_gather(
      torch::tensor(std::vector<double>(own.begin(), own.end()), torch::kDouble));
  const Tensor mean = rows.mean(0);
  const double* all = mean.data_ptr<double>();
  const double overlap = all[kComm] > 0 ? 1 - all[kExposed] / all[kComm] : 0;
  const std::int64_t images =
      communicator.world_size() * std::max<std::int64_t>(arguments.batch, 1);
  const double rate = static_cast<double>(images) / all[kStep];
  Json out{{"ranks", communicator.world_size()},
           {"images_per_s", rate},
           {"seconds_per_step", all[kStep]},
           {"communication_s", all[kComm]},
           {"exposed_s", all[kExposed]},
           {"overlap", overlap},
           {"bytes", bytes}};
  if (communicator.rank() > 0) {
    return out;
  }
  fmt::print("\nsteps of {}: median seconds\n{:>5} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
             arguments.config, "rank", "step", "forward", "backward", "comm", "exposed");
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank) {
    const double* row = rows[rank].data_ptr<double>();
    fmt::print("{:>5} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", rank, row[kStep],
               row[kForward], row[kBackward], row[kComm], row[kExposed]);
  }
  fmt::print(
      "images/s {:.3f}; {:.1f} MB sent by each rank and step; {:.0f} % of the communication is "
      "hidden behind the backward pass\n",
      rate, static_cast<double>(bytes) / 1e6, 100 * overlap);
  const std::vector<std::int64_t> slow = stragglers(rows);
  if (!slow.empty()) {
    fmt::print("slower than the others: rank(s) {}\n", fmt::join(slow, ", "));
    out["stragglers"] = slow;
  }
  return out;
}

int bench_as(const BenchArguments& arguments,
             const Config& config,
             const std::optional<ProcessPlace>& place) {
  const int threads = configure_rank_threads(arguments.threads, place);
  return as_rank(place, config, [&](Communicator& communicator) {
    Json out{{"threads", threads}, {"sums", bench_sums(communicator, arguments.iters)}};
    if (!arguments.config.empty()) {
      out["steps"] = bench_steps(arguments, config, communicator);
    }
    if (communicator.rank() == 0 && !arguments.json.empty()) {
      files::write_atomic(arguments.json, out.dump() + "\n");
    }
  });
}

}  // namespace

int bench_comm(const BenchArguments& given) {
  BenchArguments arguments = given;
  Config config;
  if (!arguments.config.empty()) {
    config = load_recipe({.file = arguments.config,
                          .overrides = arguments.overrides,
                          .data = arguments.data,
                          .needs_data = false});
    config.seed = std::max<std::int64_t>(config.seed, 1);
    if (arguments.size.height == 0) {
      const ImageSize usual = usual_image_size(config);
      arguments.size = {usual.height, usual.width};
    }
  }
  if (starts_ranks(arguments.ranks)) {
    return run_ranks(arguments.ranks, std::filesystem::temp_directory_path() / "detforge-bench",
                     [&](const ProcessPlace& place) {
                       return report_errors([&] { return bench_as(arguments, config, place); });
                     })
        .status;
  }
  const auto place = place_from_environment();
  if (!place) {
    log::warn("one rank has nobody to talk to: start more with --nproc");
  }
  return bench_as(arguments, config, place);
}

}  // namespace detforge
