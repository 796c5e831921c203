// The front program: parses, runs what needs no LibTorch, and hands the rest to `detforge-engine`
// beside it. LibTorch takes a second to load; --help, usage errors and `config` never pay it.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <unistd.h>

#include "detforge/cli/blas_kernels.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/report_errors.h"
#include "detforge/core/error.h"

namespace {

using namespace detforge;

int exec_engine(char** argv) {
  // Threads of OpenMP that wait must not spin: on a machine where anything else runs (our loader
  // threads do), spinning made a training step 4 to 10 times slower. libgomp reads this when it is
  // loaded; the user's own setting wins.
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  choose_blas_kernels();
  const auto engine =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "detforge-engine";
  ::execv(engine.c_str(), argv);
  throw Error(std::string("cannot start the engine: ") + std::strerror(errno),
              "build the target detforge-engine; it must lie beside detforge")
      .add_where(engine.string());
}

struct RunHere {
  char** argv;
  int operator()(const ConfigArguments& arguments) const { return run_config(arguments); }
  int operator()(const MakeShapesArguments& arguments) const { return run_make_shapes(arguments); }
  int operator()(const ConvertDatasetArguments& arguments) const {
    return run_convert_dataset(arguments);
  }
  template <typename Other>
  int operator()(const Other&) const {
    return exec_engine(argv);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return report_errors([&] {
    const auto command = parse_command_line(argc, argv);
    return command ? std::visit(RunHere{argv}, *command) : 0;
  });
}
