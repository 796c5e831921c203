#include "cli/program.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

void redirect(int descriptor, const std::string& file) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) {
    ::_exit(126);
  }
}

}  // namespace

std::filesystem::path program_path() {
  const char* path = std::getenv("DETFORGE_BIN");
  return path != nullptr ? path : "";
}

pid_t start_program(const std::filesystem::path& program,
                    const std::vector<std::string>& arguments,
                    const ProgramPlace& place) {
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = place.environment;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  const auto argv = pointers(words), envp = pointers(variables);
  const pid_t child = ::fork();
  DETFORGE_CHECK(child >= 0, "cannot fork", "");
  if (child == 0) {
    redirect(STDOUT_FILENO, place.out_file);
    redirect(STDERR_FILENO, place.err_file);
    if (::chdir(place.folder.c_str()) == 0) {
      ::execve(program.c_str(), argv.data(), envp.data());
    }
    ::_exit(127);
  }
  return child;
}

ProgramResult run_program(const std::filesystem::path& program,
                          const std::vector<std::string>& arguments,
                          const std::filesystem::path& folder,
                          const std::vector<std::string>& environment) {
  const TemporaryFolder output;
  const ProgramPlace place{.folder = folder,
                           .environment = environment,
                           .out_file = (output / "out").string(),
                           .err_file = (output / "err").string()};
  const pid_t child = start_program(program, arguments, place);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          files::read(place.out_file), files::read(place.err_file)};
}

}  // namespace detforge::test
