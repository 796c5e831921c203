#include "detforge/cli/bench_ops.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "detforge/cli/explain_layers.h"
#include "detforge/cli/layer_bench.h"
#include "detforge/cli/recipe_layers.h"
#include "detforge/core/files.h"
#include "detforge/core/fma_peak.h"

namespace detforge {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kBackends = {KernelBackend::kOwn, KernelBackend::kAten};

/// One pass of one layer, by backend.
struct PassFigures {
  std::array<double, 2> seconds{};
  std::array<double, 2> error{};  ///< NaN if it was not asked for
};

/// A layer shape whose passes have been measured as far as a recipe runs them.
struct MeasuredLayer {
  LayerShape shape;
  double macs = 0;
  std::array<std::optional<PassFigures>, kPasses.size()> passes{};
};

std::int64_t runs_of(const LayerCount& layer, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return layer.forward;
    case Pass::kBackwardData:
      return layer.backward_data;
    case Pass::kBackwardWeight:
      break;
  }
  return layer.backward_weight;
}

PassFigures measure_pass(const LayerBench& bench, Pass pass, bool quick) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Tensor reference = quick ? Tensor() : bench.reference(pass);
  PassFigures figures;
  for (std::size_t i = 0; i < kBackends.size(); ++i) {
    const auto run = bench.pass(pass, kBackends[i]);
    figures.seconds[i] = best_seconds(run, quick);
    figures.error[i] = quick ? kNone : bench.error(pass, run(), reference);
  }
  return figures;
}

/// Measures every shape once, and prints a line for each pass when it is done.
class OpsBench {
 public:
  OpsBench(int threads, bool quick)
      : threads_(threads), quick_(quick), peak_(measure_fma_peak_gflops(threads)) {}

  void print_header() const {
    fmt::print(
        "{} threads, FMA peak {:.0f} GFLOP/s ({}). own: DetForge's kernels, aten: "
        "LibTorch's. error: relative L2 against float64\n",
        threads_, peak_, fma_peak_instruction_set());
  }

  void run(const RecipeLayers& recipe) {
    double flop = 0;
    for (const LayerCount& layer : recipe.layers) {
      for (const Pass pass : kPasses) {
        flop += 2 * layer.macs * static_cast<double>(runs_of(layer, pass));
      }
    }
    fmt::print("\n{}{}{}: {} image(s) of {}x{}, {} shapes, {:.1f} GFLOP a step\n", recipe.name,
               recipe.same.empty() ? "" : ", ", fmt::join(recipe.same, ", "), recipe.batch,
               recipe.size.height, recipe.size.width, recipe.layers.size(), 1e-9 * flop);
    fmt::print("{:<42} {:<16} {:>4} {:>9} {:>7} {:>5} {:>8} {:>9} {:>7} {:>5} {:>8} {:>6}\n",
               "layer", "pass", "runs", "own ms", "GFLOP/s", "peak%", "error", "aten ms", "GFLOP/s",
               "peak%", "error", "ratio");
    std::array<double, 2> seconds{};
    Json layers = Json::array();
    for (const LayerCount& layer : recipe.layers) {
      const std::size_t index = run_layer(layer);
      layers.push_back({{"layer", index},
                        {"runs", {layer.forward, layer.backward_data, layer.backward_weight}}});
      add_seconds(layer, measured_[index], seconds);
    }
    fmt::print(
        "{:<42} {:<16} {:>4} {:>9.1f} {:>7.0f} {:>5.0f} {:>8} {:>9.1f} {:>7.0f} {:>5.0f} "
        "{:>8} {:>6.2f}\n",
        "all layers of a step", "", "", 1e3 * seconds[0], rate(flop, seconds[0]),
        percent(flop, seconds[0]), "", 1e3 * seconds[1], rate(flop, seconds[1]),
        percent(flop, seconds[1]), "", seconds[1] / seconds[0]);
    recipes_.push_back({{"name", recipe.name},
                        {"same", recipe.same},
                        {"size", fmt::format("{}x{}", recipe.size.height, recipe.size.width)},
                        {"batch", recipe.batch},
                        {"gflop", 1e-9 * flop},
                        {"own_s", seconds[0]},
                        {"aten_s", seconds[1]},
                        {"layers", layers}});
  }

  Json json() const {
    Json layers = Json::array();
    for (const MeasuredLayer& layer : measured_) {
      Json entry{{"name", layer_name(layer.shape)}, {"gflop_per_pass", 2e-9 * layer.macs}};
      for (std::size_t i = 0; i < kPasses.size(); ++i) {
        if (const auto& figures = layer.passes[i]) {
          entry[pass_name(kPasses[i])] = {{"own_s", figures->seconds[0]},
                                          {"aten_s", figures->seconds[1]},
                                          {"own_error", figures->error[0]},
                                          {"aten_error", figures->error[1]}};
        }
      }
      layers.push_back(std::move(entry));
    }
    return {{"program", "detforge " DETFORGE_VERSION},
            {"threads", threads_},
            {"peak_gflops", peak_},
            {"layers", std::move(layers)},
            {"recipes", recipes_}};
  }

 private:
  static double rate(double flop, double seconds) { return 1e-9 * flop / seconds; }
  double percent(double flop, double seconds) const { return 100 * rate(flop, seconds) / peak_; }

  /// The index of the layer in measured_, with the passes that `layer` runs.
  std::size_t run_layer(const LayerCount& layer) {
    auto known = std::find_if(measured_.begin(), measured_.end(),
                              [&](const MeasuredLayer& m) { return m.shape == layer.shape; });
    if (known == measured_.end()) {
      known = measured_.insert(measured_.end(), {.shape = layer.shape, .macs = layer.macs});
    }
    std::optional<LayerBench> bench;
    for (std::size_t i = 0; i < kPasses.size(); ++i) {
      if (runs_of(layer, kPasses[i]) > 0 && !known->passes[i]) {
        if (!bench) {
          bench.emplace(layer.shape);
        }
        known->passes[i] = measure_pass(*bench, kPasses[i], quick_);
        print(*known, i, runs_of(layer, kPasses[i]));
      }
    }
    return static_cast<std::size_t>(known - measured_.begin());
  }

  void print(const MeasuredLayer& layer, std::size_t pass, std::int64_t runs) const {
    const PassFigures& figures = *layer.passes[pass];
    const double flop = 2 * layer.macs;
    std::string columns;
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      columns += fmt::format(" {:>9.2f} {:>7.0f} {:>5.0f} {:>8}", 1e3 * figures.seconds[i],
                             rate(flop, figures.seconds[i]), percent(flop, figures.seconds[i]),
                             quick_ ? std::string("-") : fmt::format("{:.1e}", figures.error[i]));
    }
    fmt::print("{:<42} {:<16} {:>4}{} {:>6.2f}\n", layer_name(layer.shape),
               pass_name(kPasses[pass]), runs, columns, figures.seconds[1] / figures.seconds[0]);
    std::fflush(stdout);
  }

  static void add_seconds(const LayerCount& layer,
                          const MeasuredLayer& measured,
                          std::array<double, 2>& seconds) {
    for (std::size_t pass = 0; pass < kPasses.size(); ++pass) {
      for (std::size_t i = 0; i < kBackends.size() && measured.passes[pass]; ++i) {
        seconds[i] +=
            static_cast<double>(runs_of(layer, kPasses[pass])) * measured.passes[pass]->seconds[i];
      }
    }
  }

  int threads_;
  bool quick_;
  double peak_;
  std::vector<MeasuredLayer> measured_;
  Json recipes_ = Json::array();
};

}  // namespace

int bench_ops(const BenchArguments& arguments, int threads) {
  const std::vector<RecipeLayers> recipes = collect_layers(arguments);
  if (arguments.explain) {
    explain_layers(recipes);
    return 0;
  }
  OpsBench bench(threads, arguments.quick);
  bench.print_header();
  for (const RecipeLayers& recipe : recipes) {
    bench.run(recipe);
  }
  if (!arguments.json.empty()) {
    files::write_atomic(arguments.json, bench.json().dump() + "\n");
  }
  return 0;
}

}  // namespace detforge
