#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "detforge/cli/bench_comm.h"
#include "detforge/cli/bench_ops.h"
#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/made_up_batch.h"
#include "detforge/cli/median.h"
#include "detforge/cli/op_table.h"
#include "detforge/cli/precision_modes.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/threads.h"
#include "detforge/core/allocator.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/fma_peak.h"
#include "detforge/core/timer.h"
#include "detforge/distributed/single_process.h"
#include "detforge/models/blocks.h"
#include "detforge/ops/kernel_backend.h"
#include "detforge/ops/op_profile.h"
#include "detforge/ops/work_meter.h"
#include "detforge/train/model_state.h"
#include "detforge/train/step.h"

namespace detforge {
namespace {

/// Median seconds of each phase over the measured iterations.
struct Phases {
  std::vector<double> data, forward, backward, optimizer, total;
};

double peak_rss_gib() {
  return static_cast<double>(peak_rss_bytes()) / (1 << 30);
}

/// What a bench prints, and writes for benchmarks/compare.sh.
void report(const BenchArguments& arguments,
            int threads,
            double seconds,
            nlohmann::ordered_json more) {
  const double images_per_s = static_cast<double>(arguments.batch) / seconds;
  fmt::print("{:<16} {:.3f}\n{:<16} {:.4f}\n", "images/s", images_per_s, "s/iteration", seconds);
  nlohmann::ordered_json out{
      {"program", "detforge " DETFORGE_VERSION},
      {"task", arguments.task},
      {"size", fmt::format("{}x{}", arguments.size.height, arguments.size.width)},
      {"batch", arguments.batch},
      {"threads", threads},
      {"kernels", kernel_backend_name(kernel_backend())},
      {"seconds_per_step", seconds},
      {"images_per_s", images_per_s},
      {"peak_rss_mib", peak_rss_bytes() / (1 << 20)}};
  for (const auto& [name, value] : more.items()) {
    if (value.is_array() || value.is_object()) {
      // printed as a table of its own, or only for programs
    } else if (value.is_number_float()) {
      fmt::print("{:<16} {:.4f}\n", name, value.get<double>());
    } else {
      fmt::print("{:<16} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
    }
    out[name] = value;
  }
  fmt::print("{:<16} {:.2f} GiB\n", "peak RSS", peak_rss_gib());
  if (!arguments.json.empty()) {
    files::write_atomic(arguments.json, out.dump() + "\n");
  }
}

nlohmann::ordered_json arithmetic(double flop, double seconds, int threads) {
  const double peak = measure_fma_peak_gflops(threads);
  const double rate = flop / seconds / 1e9;
  return {{"GFLOP/step", flop / 1e9},
          {"GFLOP/s", rate},
          {"peak GFLOP/s", peak},
          {"% of peak", 100 * rate / peak}};
}

/// The op table of one more run, which is timed by itself: profiling costs a little.
nlohmann::ordered_json profile_ops(const std::function<void()>& run) {
  const OpProfile profile;
  const Timer timer;
  run();
  const double seconds = timer.elapsed_s();
  const nlohmann::ordered_json table = print_op_table(profile.by_self_time(), seconds);
  fmt::print("\n");
  return table;
}

Config bench_config(const BenchArguments& arguments) {
  return load_recipe({.file = arguments.config,
                      .overrides = arguments.overrides,
                      .data = arguments.data,
                      .needs_data = arguments.task == "data"});
}

/// What the command line left open.
void fill_in(BenchArguments& arguments, const Config& config) {
  if (arguments.size.height == 0) {
    const ImageSize usual = usual_image_size(config);
    arguments.size = {usual.height, usual.width};
  }
  arguments.batch = std::max<std::int64_t>(1, arguments.batch);
}

/// Calls `iteration` once to warm up, then `iters` times.
void measure(std::int64_t iters, const std::function<void(bool measured)>& iteration) {
  iteration(false);
  for (std::int64_t i = 0; i < iters; ++i) {
    iteration(true);
  }
}

/// Images or rows, of all calls, that the first layer with `kind` and its later calls were given; 0
/// if there is none.
std::int64_t given_to_first(const WorkMeter& meter, LayerKind kind) {
  const LayerShape* first = nullptr;
  std::int64_t given = 0;
  for (const LayerCount& layer : meter.layers()) {
    if (layer.shape.kind != kind) {
      continue;
    }
    first = first == nullptr ? &layer.shape : first;
    given += layer.shape.weight == first->weight ? layer.forward * layer.shape.input[0] : 0;
  }
  return given;
}

/// On how many regions the box head and the mask head worked: what their only fully connected
/// stack and their transposed convolution were given.
nlohmann::ordered_json regions(const WorkMeter& meter) {
  return {{"ROIs", given_to_first(meter, LayerKind::kLinear)},
          {"mask ROIs", given_to_first(meter, LayerKind::kConvTranspose)}};
}

/// One training step on the same made-up batch, again and again.
class TrainingBench {
 public:
  TrainingBench(const Config& config, const BenchArguments& arguments)
      : detector_(build_detector(config)),
        optimizer_(*detector_, sgd_options(config.solver)),
        precision_(precision_options(config)),
        samples_(made_up_samples(
            arguments.size, arguments.batch, arguments.objects, class_count(config))),
        collating_(made_up_collate_options(collate_options(config))) {
    detector_->train();
    settle_frozen_norms(*detector_);
    precision_.apply(*detector_, optimizer_);
  }

  void step(Phases* phases = nullptr) {
    constexpr double kRate =
        0;  // random weights with frozen norms would diverge; the step costs the same
    const Timer timer;
    const Batch batch = collate(samples_, collating_);
    const double data_s = timer.elapsed_s();
    const WorkMeter meter;
    const StepResult step = first_finite_step(batch, kRate);
    DETFORGE_CHECK(step.updated(), "the benchmark's step was not finite: " + step.nonfinite,
                   "choose another LOSS_SCALE_VALUE, or HALF_TYPE bf16");
    flop_ = 2 * (meter.forward_macs() + meter.backward_macs());
    regions_ = regions(meter);
    first_loss_ = first_loss_ == 0 ? step.total : first_loss_;
    if (phases != nullptr) {
      phases->data.push_back(data_s);
      phases->forward.push_back(step.forward_s);
      phases->backward.push_back(step.backward_s);
      phases->optimizer.push_back(step.optimizer_s);
      phases->total.push_back(timer.elapsed_s());
    }
  }

  /// Under a dynamic loss scale the first steps of all may overflow: it then finds its place.
  StepResult first_finite_step(const Batch& batch, double rate) {
    for (;;) {
      StepResult step = train_step(*detector_, optimizer_, communicator_, batch,
                                   {.lr = rate, .precision = &precision_});
      if (step.updated() || precision_.scaler().is_at_floor()) {
        return step;
      }
    }
  }

  /// Of the direct algorithms, in the last step.
  double flop() const { return flop_; }
  const nlohmann::ordered_json& regions_worked_on() const { return regions_; }
  double first_loss() const { return first_loss_; }
  /// Of what is there for every image size.
  nlohmann::ordered_json memory() const {
    const auto mib = [](double bytes) { return bytes / (1 << 20); };
    double weights = 0, gradients = 0;
    for (const Tensor& parameter : detector_->parameters()) {
      weights += static_cast<double>(parameter.nbytes());
      gradients += parameter.grad().defined() ? static_cast<double>(parameter.grad().nbytes()) : 0;
    }
    const auto bytes_of = [](const NamedTensors& tensors) {
      return static_cast<double>(total_bytes(tensors));
    };
    return {{"weights_mib", mib(weights)},
            {"masters_mib", mib(bytes_of(optimizer_.masters()))},
            {"momentum_mib", mib(bytes_of(optimizer_.state()))},
            {"gradients_mib", mib(gradients)}};
  }

 private:
  std::shared_ptr<Detector> detector_;
  Sgd optimizer_;
  Precision precision_;
  SingleProcess communicator_;
  std::vector<Sample> samples_;
  CollateOptions collating_;
  double flop_ = 0, first_loss_ = 0;
  nlohmann::ordered_json regions_;
};

int bench_train(BenchArguments arguments, int threads) {
  const Config config = bench_config(arguments);
  fill_in(arguments, config);
  TrainingBench bench(config, arguments);
  Phases phases;
  measure(arguments.iters, [&](bool measured) { bench.step(measured ? &phases : nullptr); });
  const double seconds = median(phases.total);
  nlohmann::ordered_json more{{"data s", median(phases.data)},
                              {"forward s", median(phases.forward)},
                              {"backward s", median(phases.backward)},
                              {"optimizer s", median(phases.optimizer)}};
  more["total_loss"] = bench.first_loss();
  more["memory"] = bench.memory();
  more.update(bench.regions_worked_on());
  more.update(arithmetic(bench.flop(), seconds, threads));
  more["ops"] = profile_ops([&] { bench.step(); });
  report(arguments, threads, seconds, more);
  return 0;
}

int bench_eval(BenchArguments arguments, int threads) {
  const Config config = bench_config(arguments);
  fill_in(arguments, config);
  const auto detector = build_detector(config);
  detector->eval();
  fold_norms_(*detector);
  const torch::NoGradGuard no_grad;
  const Batch batch = collate(
      made_up_samples(arguments.size, arguments.batch, arguments.objects, class_count(config)),
      made_up_collate_options(collate_options(config)));
  std::vector<double> total;
  double flop = 0;
  std::int64_t detections = 0;
  nlohmann::ordered_json more;
  measure(arguments.iters, [&](bool measured) {
    const Timer timer;
    const WorkMeter meter;
    const std::vector<Detections> found = detector->predict(batch.images);
    if (measured) {
      total.push_back(timer.elapsed_s());
    }
    flop = 2 * meter.forward_macs();
    more = regions(meter);
    detections = 0;
    for (const Detections& image : found) {
      detections += image.scores.numel();
    }
  });
  more["detections"] = detections;
  more.update(arithmetic(flop, median(total), threads));
  more["ops"] = profile_ops([&] { detector->predict(batch.images); });
  report(arguments, threads, median(total), more);
  return 0;
}

int bench_data(BenchArguments arguments, int threads) {
  const Config config = bench_config(arguments);
  const CocoDataset dataset(train_dataset_options(config));
  const TransformPipeline transforms(train_transform_options(config));
  TrainLoader loader(dataset, transforms, train_loader_options(config));
  arguments.batch = config.solver.ims_per_batch;
  std::vector<double> total;
  measure(arguments.iters, [&](bool measured) {
    const Timer timer;
    loader.next();
    if (measured) {
      total.push_back(timer.elapsed_s());
    }
  });
  // Prefetched batches come at once and the wait is in the others: only the mean says the rate.
  double sum = 0;
  for (const double s : total) {
    sum += s;
  }
  report(arguments, threads, sum / static_cast<double>(total.size()),
         {{"loader threads", config.dataloader.num_workers}});
  return 0;
}

}  // namespace

int run_bench(const BenchArguments& arguments) {
  if (arguments.task == "comm") {
    return bench_comm(arguments);
  }
  const int threads = configure_threads(arguments.threads);
  if (arguments.task == "train") {
    return arguments.modes.empty() ? bench_train(arguments, threads) : bench_modes(arguments);
  }
  if (arguments.task == "eval") {
    return bench_eval(arguments, threads);
  }
  if (arguments.task == "data") {
    return bench_data(arguments, threads);
  }
  return bench_ops(arguments, threads);
}

}  // namespace detforge
