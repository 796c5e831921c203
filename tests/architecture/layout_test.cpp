// What STYLE asks of every source file and a compiler does not check.

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 400;

struct SourceFile {
  std::string path;    ///< below the repository's root
  std::string folder;  ///< "ops" for src/detforge/ops/cpu/nms.cpp; "" outside src/detforge
  std::vector<std::string> lines;
};

std::vector<SourceFile> source_files(const std::string& root) {
  std::vector<SourceFile> sources;
  const fs::path library = test::source_dir() / "src" / "detforge";
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp") {
      continue;
    }
    SourceFile source{
        .path = fs::relative(entry.path(), test::source_dir()).string(), .folder = {}, .lines = {}};
    const fs::path below = fs::relative(entry.path(), library);
    if (below.begin()->string() != ".." && std::distance(below.begin(), below.end()) > 1) {
      source.folder = below.begin()->string();
    }
    std::istringstream text(files::read(entry.path()));
    for (std::string line; std::getline(text, line);) {
      source.lines.push_back(line);
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

/// Folder of src/detforge -> folders whose headers it may include besides its own and core's, from
/// the table of docs/architecture.md: rows "| `ops` | what it is | structures, data |".
/// "everything" stands for all.
std::map<std::string, std::set<std::string>> allowed_edges() {
  static const std::regex kRow(R"(^\| `(\w+)` \|[^|]*\|([^|]*)\|)"), kWord(R"(\w+)");
  std::map<std::string, std::set<std::string>> edges;
  std::istringstream text(files::read(test::source_dir() / "docs" / "architecture.md"));
  for (std::string line; std::getline(text, line);) {
    std::smatch row;
    if (!std::regex_search(line, row, kRow)) {
      continue;
    }
    const std::string names = row[2];
    std::set<std::string>& targets = edges[row[1]];
    for (std::sregex_iterator word(names.begin(), names.end(), kWord), end; word != end; ++word) {
      targets.insert(word->str());
    }
  }
  return edges;
}

std::string include_of(const std::string& line) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::smatch match;
  return std::regex_search(line, match, kInclude) ? match[1].str() : "";
}

/// The line without what stands in a // comment or in quotes.
std::string code_of(const std::string& line) {
  static const std::regex kText(R"(\"(\\.|[^\"\\])*\")");
  const std::string code = std::regex_replace(line, kText, "\"\"");
  return code.substr(0, code.find("//"));
}

TEST(Layout, TheTableOfFoldersIsInDependencyOrder) {
  std::istringstream order(files::read(test::source_dir() / "src" / "detforge" / "CMakeLists.txt"));
  std::set<std::string> earlier;
  const auto edges = allowed_edges();
  static const std::regex kFolder(R"(^add_subdirectory\((\w+)\))");
  for (std::string line; std::getline(order, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, kFolder)) {
      continue;
    }
    const std::string folder = match[1];
    ASSERT_TRUE(edges.contains(folder)) << folder << " is not in the table of docs/architecture.md";
    for (const auto& target : edges.at(folder)) {
      EXPECT_TRUE(target == "everything" || earlier.contains(target)) << folder << " -> " << target;
    }
    earlier.insert(folder);
  }
  EXPECT_EQ(earlier.size(), edges.size());
}

TEST(Layout, IncludesFollowTheTableOfFolders) {
  const auto edges = allowed_edges();
  int checked = 0;
  for (const SourceFile& source : source_files("src/detforge")) {
    const auto allowed = edges.find(source.folder);
    ASSERT_NE(allowed, edges.end()) << source.path << ": not in the table of docs/architecture.md";
    for (const std::string& line : source.lines) {
      const std::string include = include_of(line);
      if (!include.starts_with("detforge/")) {
        continue;
      }
      const std::string target = include.substr(9, include.find('/', 9) - 9);
      EXPECT_TRUE(target == source.folder || target == "core" || allowed->second.contains(target) ||
                  allowed->second.contains("everything"))
          << source.path << " may not include " << include;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

TEST(Layout, OwnHeadersAreIncludedByTheirFullName) {
  for (const SourceFile& source : source_files("src/detforge")) {
    for (const std::string& line : source.lines) {
      if (line.starts_with("#include \"")) {
        EXPECT_TRUE(include_of(line).starts_with("detforge/")) << source.path << ": " << line;
      }
    }
  }
}

TEST(Layout, NoFileIncludesTheSlowestHeaders) {
  const std::set<std::string> slow = {"torch/torch.h", "torch/all.h", "torch/nn.h",
                                      "torch/script.h", "torch/extension.h"};
  for (const std::string root : {"src/detforge", "tests", "benchmarks"}) {
    for (const SourceFile& source : source_files(root)) {
      for (const std::string& line : source.lines) {
        EXPECT_FALSE(slow.contains(include_of(line))) << source.path << ": " << line;
      }
    }
  }
}

TEST(Layout, FilesAreShort) {
  for (const std::string root : {"src/detforge", "tests", "benchmarks"}) {
    for (const SourceFile& source : source_files(root)) {
      EXPECT_LT(source.lines.size(), kMostLines) << source.path << " is too long: split it";
    }
  }
}

TEST(Layout, HeadersHavePragmaOnce) {
  for (const std::string root : {"src/detforge", "tests"}) {
    for (const SourceFile& source : source_files(root)) {
      if (source.path.ends_with(".h")) {
        EXPECT_NE(std::find(source.lines.begin(), source.lines.end(), "#pragma once"),
                  source.lines.end())
            << source.path;
      }
    }
  }
}

TEST(Layout, OnlyTheProgramPrintsOrEndsTheProcess) {
  // snprintf and std::quick_exit-like names must not match: hence the word boundary in front.
  const std::regex forbidden(
      R"((^|[^\w.>])(std::|fmt::|::)?((printf|fprintf|puts|system|exit|_exit|abort|terminate)\s*\(|cout\b|cerr\b|print\s*\())");
  for (const SourceFile& source : source_files("src/detforge")) {
    // A forked process must end without what its parent would do at its end.
    if (source.folder == "cli" || source.path.ends_with("local_launcher.cpp")) {
      continue;
    }
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(code_of(source.lines[i]), forbidden))
          << source.path << ":" << i + 1 << ": use core/log or throw Error: " << source.lines[i];
    }
  }
}

TEST(Layout, NoHeaderOpensANamespaceForEveryone) {
  for (const SourceFile& source : source_files("src/detforge")) {
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(source.path.ends_with(".h") && line.starts_with("using namespace"))
          << source.path;
    }
  }
}

}  // namespace
}  // namespace detforge
