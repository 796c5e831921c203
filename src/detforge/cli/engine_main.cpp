// The program with LibTorch, started by `detforge` with the same command line.

#include "detforge/cli/commands.h"
#include "detforge/cli/report_errors.h"
#include "detforge/core/allocator.h"
#include "detforge/core/error.h"

namespace {

using namespace detforge;

// CMakeLists.txt defines DETFORGE_HAS_X where x.cpp is there.
struct Run {
  int operator()(const ConfigArguments& arguments) const { return run_config(arguments); }
#ifdef DETFORGE_HAS_MAKE_SHAPES
  int operator()(const MakeShapesArguments& arguments) const {
    return run_make_shapes(arguments);
  }
#endif
#ifdef DETFORGE_HAS_TRAIN
  int operator()(const TrainArguments& arguments) const {
    return run_train(arguments);
  }
#endif
#ifdef DETFORGE_HAS_EVAL
  int operator()(const EvalArguments& arguments) const {
    return run_eval(arguments);
  }
#endif
#ifdef DETFORGE_HAS_PREDICT
  int operator()(const PredictArguments& arguments) const {
    return run_predict(arguments);
  }
#endif
#ifdef DETFORGE_HAS_INSPECT
  int operator()(const InspectArguments& arguments) const {
    return run_inspect(arguments);
  }
#endif
#ifdef DETFORGE_HAS_BENCH
  int operator()(const BenchArguments& arguments) const {
    return run_bench(arguments);
  }
#endif
#ifdef DETFORGE_HAS_DOCTOR
  int operator()(const DoctorArguments& arguments) const {
    return run_doctor(arguments);
  }
#endif
  template <typename Other>
  int operator()(const Other&) const {
    throw Error("this command is not built yet", "see the table in README.md");
  }
};

}  // namespace

int main(int argc, char** argv) {
  configure_malloc();
  return report_errors([&] {
    const auto command = parse_command_line(argc, argv);
    return command ? std::visit(Run{}, *command) : 0;
  });
}
