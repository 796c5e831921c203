// The program with LibTorch, started by `detforge` with the same command line.

#include <string>
#include <variant>

#include <c10/util/Exception.h>

#include "detforge/cli/commands.h"
#include "detforge/cli/report_errors.h"
#include "detforge/core/allocator.h"
#include "detforge/core/caching_allocator.h"
#include "detforge/core/error.h"
#include "detforge/ops/kernel_backend.h"

namespace {

using namespace detforge;

struct Run {
  int operator()(const TrainArguments& arguments) const { return run_train(arguments); }
  int operator()(const EvalArguments& arguments) const { return run_eval(arguments); }
  int operator()(const PredictArguments& arguments) const { return run_predict(arguments); }
  int operator()(const ConfigArguments& arguments) const { return run_config(arguments); }
  int operator()(const MakeShapesArguments& arguments) const { return run_make_shapes(arguments); }
  int operator()(const ConvertDatasetArguments& arguments) const {
    return run_convert_dataset(arguments);
  }
  int operator()(const ConvertWeightsArguments& arguments) const {
    return run_convert_weights(arguments);
  }
  int operator()(const InspectArguments& arguments) const { return run_inspect(arguments); }
  int operator()(const BenchArguments& arguments) const { return run_bench(arguments); }
  int operator()(const ReplayArguments& arguments) const { return run_replay(arguments); }
  int operator()(const DoctorArguments& arguments) const { return run_doctor(arguments); }
};

/// Before anything allocates much. Commands without --allocator have few tensors: theirs are
/// malloc's.
void set_up_memory(const Command& command) {
  const bool caches = std::visit(
      [](const auto& arguments) {
        if constexpr (requires { arguments.allocator; }) {
          return arguments.allocator == Allocator::kCaching;
        } else {
          return false;
        }
      },
      command);
  configure_malloc(caches ? TensorSource::kCachingHeap : TensorSource::kMalloc);
  if (caches) {
    install_caching_allocator();
  }
}

/// LibTorch's own errors come with a C++ backtrace that tells users nothing.
int run(const Command& command) {
  try {
    return std::visit(Run{}, command);
  } catch (const c10::Error& error) {
    throw Error(
        std::string("LibTorch failed: ") + error.what_without_backtrace(),
        "if memory ran out, use a smaller batch or smaller images; else please report this");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return report_errors([&] {
    const auto command = parse_command_line(argc, argv);
    if (!command) {
      return 0;
    }
    set_up_memory(*command);
    kernel_backend();  // a wrong DETFORGE_KERNELS is told now, not after loading the data
    return run(*command);
  });
}
