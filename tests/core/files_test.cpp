#include "detforge/core/files.h"

#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "support/test_data.h"

namespace detforge {
namespace {

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(Files, WriteAtomicReplacesTheWholeContentAndLeavesNothingElse) {
  const test::TemporaryFolder folder;
  const auto path = folder / "deep/er/file.txt";
  files::write_atomic(path, "first, and longer");
  files::write_atomic(path, "second");
  EXPECT_EQ(files::read(path), "second");
  EXPECT_EQ(entries(path.parent_path()), 1u);
}

TEST(Files, FailedWriterKeepsTheOldFileAndRemovesTheTemporary) {
  const test::TemporaryFolder folder;
  const auto path = folder / "file.txt";
  files::write_atomic(path, "old");
  const auto failing = [](const std::filesystem::path& temporary) {
    std::ofstream(temporary) << "half";
    throw std::runtime_error("disk on fire");
  };
  EXPECT_THROW(files::write_atomic(path, failing), std::runtime_error);
  EXPECT_EQ(files::read(path), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Files, KilledWriterLeavesTheOldFileAndAStaleTemporaryThatIsSweptUp) {
  const test::TemporaryFolder folder;
  const auto path = folder / "file.txt";
  files::write_atomic(path, "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    files::write_atomic(path, [](const std::filesystem::path& temporary) {
      std::ofstream(temporary) << "half" << std::flush;
      ::_exit(9);
    });
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(files::read(path), "old");
  EXPECT_EQ(entries(folder.path()), 2u);
  EXPECT_EQ(files::remove_stale_temporaries(folder.path()), 1);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Files, ErrorsNameThePathAndTheReason) {
  const test::TemporaryFolder folder;
  try {
    files::read(folder / "absent.json");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("absent.json"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("No such file"), std::string::npos);
  }
  EXPECT_THROW(files::read(folder.path()), Error);  // a folder
}

TEST(Files, FullDiskIsAnErrorThatNamesTheDisk) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full on this machine";
  }
  try {
    files::append_line("/dev/full", "x");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.fix()).find("free space"), std::string::npos) << e.what();
  }
}

TEST(Files, WriteFolderMovesAllFilesOrNone) {
  const test::TemporaryFolder folder;
  const auto fill = [](const std::filesystem::path& temporary) {
    files::write_plain(temporary / "sub" / "a.txt", "new");
    std::filesystem::create_symlink("/somewhere", temporary / "link");
  };
  EXPECT_EQ(files::write_folder(folder / "out", false, fill), 2u);
  EXPECT_EQ(files::read(folder / "out/sub/a.txt"), "new");
  EXPECT_EQ(std::filesystem::read_symlink(folder / "out/link"), "/somewhere");
  files::write_plain(folder / "out/sub/a.txt", "old");
  std::filesystem::remove(folder / "out/link");
  EXPECT_THROW(files::write_folder(folder / "out", false, fill), Error);
  EXPECT_EQ(files::read(folder / "out/sub/a.txt"), "old");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "out/link"));
  files::write_folder(folder / "out", true, fill);
  EXPECT_EQ(files::read(folder / "out/sub/a.txt"), "new");
  EXPECT_THROW(files::write_folder(folder / "out", true,
                                   [](const std::filesystem::path& temporary) {
                                     files::write_plain(temporary / "b.txt", "b");
                                     throw Error("no", "never");
                                   }),
               Error);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "out")) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(left.size(), 2u);  // sub and link, no temporary folder
}

TEST(Files, SecondLockHolderIsRefusedAndToldWhoHasIt) {
  const test::TemporaryFolder folder;
  {
    const files::Lock first(folder / "lock");
    try {
      const files::Lock second(folder / "lock");
      FAIL() << "two holders";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(::getpid())), std::string::npos)
          << e.what();
    }
  }
  EXPECT_NO_THROW(files::Lock(folder / "lock"));
}

TEST(Files, Fnv1a64MatchesThePublishedVectors) {
  EXPECT_EQ(files::fnv1a64(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(files::fnv1a64("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(files::fnv1a64("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace detforge
