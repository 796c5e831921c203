// The built program as its user meets it: help, exit status, messages, and what it hands to the
// engine.

#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using test::run_program;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ProgramResult detforge(const std::vector<std::string>& arguments) {
  return run_program(test::program_path(), arguments);
}

/// Compares with tests/cli/golden/NAME.txt; DETFORGE_UPDATE_GOLDEN=1 writes the file instead.
void expect_golden(const std::string& name, const std::string& text) {
  const fs::path file = test::source_dir() / "tests" / "cli" / "golden" / (name + ".txt");
  if (std::getenv("DETFORGE_UPDATE_GOLDEN") != nullptr) {
    files::write_atomic(file, text);
  }
  EXPECT_EQ(text, files::read(file)) << "see expect_golden to accept a changed text";
}

TEST(HelpCli, OfTheProgramIsTheGoldenText) {
  DETFORGE_REQUIRE_PROGRAM();
  const ProgramResult result = detforge({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  expect_golden("help", result.out);
}

TEST(HelpCli, OfEverySubcommandIsTheGoldenTextWithExamples) {
  DETFORGE_REQUIRE_PROGRAM();
  for (const std::string command : {"train", "eval", "predict", "config", "make-shapes", "inspect",
                                    "bench", "replay", "doctor"}) {
    const ProgramResult result = detforge({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  detforge " + command));
    expect_golden("help_" + command, result.out);
  }
}

TEST(HelpCli, OfConvertAndWhatIsBelowItAreTheGoldenTexts) {
  DETFORGE_REQUIRE_PROGRAM();
  expect_golden("help_convert", detforge({"convert", "--help"}).out);
  const ProgramResult result = detforge({"convert", "dataset", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("Examples:\n  detforge convert dataset"));
  expect_golden("help_convert_dataset", result.out);
  expect_golden("help_convert_weights", detforge({"convert", "weights", "--help"}).out);
}

#if defined(__x86_64__)
TEST(DoctorCli, FindsFittingBlasKernelsAndWarnsAboutUnfittingOnesThatTheUserChose) {
  DETFORGE_REQUIRE_PROGRAM();
  if (__builtin_cpu_supports("avx2") == 0) {
    GTEST_SKIP() << "the CPU has no AVX2: the oldest kernels may be right";
  }
  const std::string warning = "OpenBLAS uses its SSE3 kernels";
  EXPECT_THAT(detforge({"doctor"}).out, Not(HasSubstr(warning)));
  const ProgramResult chosen = run_program(test::program_path(), {"doctor"}, fs::current_path(),
                                           {"OPENBLAS_CORETYPE=Prescott"});
  if (chosen.out.find("OpenBLAS") != std::string::npos) {
    EXPECT_THAT(chosen.out, HasSubstr(warning));
  }
}
#endif

TEST(FrontCli, PrintsItsVersion) {
  DETFORGE_REQUIRE_PROGRAM();
  const ProgramResult result = detforge({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::StartsWith("detforge "));
}

TEST(FrontCli, LoadsNeitherLibTorchNorTheSlowImageLibraries) {
  DETFORGE_REQUIRE_PROGRAM();
  // The dynamic loader lists what it would load and stops: what ldd does.
  const ProgramResult result =
      run_program(test::program_path(), {}, fs::current_path(), {"LD_TRACE_LOADED_OBJECTS=1"});
  EXPECT_THAT(result.out, HasSubstr("libc.so"));
  EXPECT_THAT(result.out, AllOf(Not(HasSubstr("libtorch")), Not(HasSubstr("libc10")),
                                Not(HasSubstr("libgdal"))));
}

TEST(FrontCli, WrongUsageOfAnySubcommandIsStatusTwoAndSaysWhatToDo) {
  DETFORGE_REQUIRE_PROGRAM();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "no command given"},
      {{"trian"}, "unknown command \"trian\""},
      {{"--bogus"}, "--bogus"},
      {{"train"}, "CONFIG is missing"},
      {{"train", "a.yaml", "--bogus", "1"}, "unknown option --bogus"},
      {{"train", "--resume", "run", "--init", "w.pth"}, "do not go together"},
      {{"train", "a.yaml", "--allocator", "fast"}, "--allocator"},
      {{"eval", "--weights", "w.pth"}, "CONFIG or RUN is missing"},
      {{"predict", "run"}, "INPUT is missing"},
      {{"predict", "run", "a.jpg", "--score-threshold", "2"}, "--score-threshold"},
      {{"config"}, "CONFIG is missing"},
      {{"make-shapes", "a", "b"}, "unexpected \"b\""},
      {{"make-shapes", "--train", "-5"}, "--train"},
      {{"inspect", "a.yaml", "--size", "800"}, "HEIGHTxWIDTH"},
      {{"bench", "everything"}, "everything"},
      {{"bench", "train"}, "CONFIG is missing"},
      {{"bench", "train", "a.yaml", "--quick"}, "of the task ops"},
      {{"bench", "ops", "--explain", "--json", "a.json"}, "no figures for --json"},
      {{"bench", "eval", "a.yaml", "--modes", "o2"}, "of the task train"},
      {{"inspect", "a.yaml", "--memory", "--precision"}, "do not go together"},
      {{"train", "a.yaml", "--fp32", "--hf32"}, "do not go together"},
      {{"replay"}, "BUNDLE is missing"},
      {{"doctor", "run", "more"}, "unexpected \"more\""},
  };
  for (const auto& [arguments, expected] : cases) {
    const ProgramResult result = detforge(arguments);
    const std::string line = testing::PrintToString(arguments);
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_EQ(result.out, "") << line;
    EXPECT_THAT(result.err,
                AllOf(testing::StartsWith("error: "), HasSubstr(expected), HasSubstr("fix: ")))
        << line;
  }
}

TEST(ConfigCli, PrintsAConfigThatItReadsBack) {
  DETFORGE_REQUIRE_PROGRAM();
  const TemporaryFolder folder;
  const std::string recipe = (test::source_dir() / "configs" / "shapes.yaml").string();
  const ProgramResult first = detforge({"config", recipe, "SOLVER.STEPS", "[1,2]",
                                        "MODEL.RPN.CONV_DIMS", "[-1]", "--cfg-options", "SEED=7"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("STEPS: [1, 2]"), HasSubstr("SEED: 7")));
  files::write_atomic(folder / "effective.yaml", first.out);
  EXPECT_EQ(detforge({"config", (folder / "effective.yaml").string()}).out, first.out);
}

TEST(ConfigCli, DescribesEveryKey) {
  DETFORGE_REQUIRE_PROGRAM();
  const ProgramResult result = detforge({"config", "--describe"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("SOLVER.BASE_LR: 0.001\n"));
}

TEST(ConfigCli, EachMistakeIsStatusTwoWithFileLineAndNearestKey) {
  DETFORGE_REQUIRE_PROGRAM();
  struct Mistake {
    const char* text;
    const char* place;
    const char* advice;
  };
  const Mistake mistakes[] = {
      {"SEED: 1\nSOLVER:\n  BASE_LRR: 0.1\n", "my.yaml:3", "did you mean SOLVER.BASE_LR?"},
      {"SOLVER:\n  NMS_THRESH: 0.8\n", "my.yaml:2", "did you mean MODEL.RPN.NMS_THRESH?"},
      {"SOLVER:\n  MAX_ITER: 1.5\n", "my.yaml:2", "SOLVER.MAX_ITER must be an integer"},
      {"SEED: 1\nSEED: 2\n", "my.yaml:2", "duplicate key SEED"},
      {"MODEL:\n  RPN:\n    POSITIVE_FRACTION: 50\n", "my.yaml:3", "a number from 0 to 1"},
  };
  for (const Mistake& mistake : mistakes) {
    const TemporaryFolder folder;
    files::write_atomic(folder / "my.yaml", mistake.text);
    const ProgramResult result = detforge({"config", (folder / "my.yaml").string()});
    EXPECT_EQ(result.exit_code, 2) << mistake.text;
    EXPECT_THAT(result.err, AllOf(HasSubstr(mistake.place), HasSubstr(mistake.advice)));
  }
}

TEST(FrontCli, HandsItsCommandLineAndTheEnginesStatusOn) {
  DETFORGE_REQUIRE_PROGRAM();
  const TemporaryFolder folder;
  fs::copy_file(test::program_path(), folder / "detforge");
  files::write_atomic(folder / "detforge-engine", "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n");
  fs::permissions(folder / "detforge-engine", fs::perms::owner_all);
  const ProgramResult result =
      run_program(folder / "detforge", {"train", "a b.yaml", "SOLVER.STEPS", "[1,2]"});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_EQ(result.out, "<train><a b.yaml><SOLVER.STEPS><[1,2]>");
}

TEST(FrontCli, SaysThatTheEngineIsMissing) {
  DETFORGE_REQUIRE_PROGRAM();
  const TemporaryFolder folder;
  fs::copy_file(test::program_path(), folder / "detforge");
  const ProgramResult result = run_program(folder / "detforge", {"doctor"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("cannot start the engine"), HasSubstr("detforge-engine")));
}

}  // namespace
}  // namespace detforge
