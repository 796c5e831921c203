// The front program: parses, runs what needs no LibTorch, and hands the rest to `detforge-engine`
// beside it. LibTorch takes a second to load; --help, usage errors and `config` never pay it.

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <unistd.h>

#include "detforge/cli/commands.h"
#include "detforge/cli/report_errors.h"
#include "detforge/core/error.h"

namespace {

using namespace detforge;

int exec_engine(char** argv) {
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
#ifdef DETFORGE_HAS_MAKE_SHAPES
  int operator()(const MakeShapesArguments& arguments) const {
    return run_make_shapes(arguments);
  }
#endif
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
