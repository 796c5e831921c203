#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace detforge {

/// What was found, and what will hurt or could be better, with its remedy.
struct Diagnosis {
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::string> warnings;

  void fact(std::string name, std::string value) {
    facts.emplace_back(std::move(name), std::move(value));
  }
  void warn(std::string text) { warnings.push_back(std::move(text)); }
};

/// The checklist after a run, from its config.yaml and metrics.jsonl: precision and loss scale,
/// steps that were skipped, waiting for data, memory, batch, threads. Throws Error if `run` is no
/// run folder.
void examine_run(const std::filesystem::path& run, Diagnosis& out);

}  // namespace detforge
