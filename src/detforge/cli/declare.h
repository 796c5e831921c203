#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "detforge/cli/arguments.h"

/// Shared by the files that declare subcommands to CLI11.
namespace detforge {

/// A declared subcommand. `finish` is called after parsing with the words that no option took.
struct Declaration {
  CLI::App* app;
  std::function<Command(const std::vector<std::string>& words)> finish;
};

struct CommandText {
  std::string usage;  ///< what follows the command's name
  std::string description;
  std::string examples;  ///< one command per line
};

CLI::App* add_command(CLI::App& parent, const std::string& name, const CommandText& text);

/// A command that only has commands below it: `detforge convert dataset`.
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& description);

/// --cfg-options KEY=VALUE, which may be repeated.
void add_cfg_options(CLI::App& app, std::vector<std::string>& out);
void add_threads(CLI::App& app, int& out);
void add_allocator(CLI::App& app, Allocator& out);
/// --nproc, --nnodes, --node-rank, --master-addr, --master-port, --local-addr, --bind-cores.
void add_ranks(CLI::App& app, RankArguments& out);
/// --size HEIGHTxWIDTH.
void add_size(CLI::App& app, HeightWidth& out, const std::string& description);

/// `words` followed by the --cfg-options.
std::vector<std::string> joined(const std::vector<std::string>& words,
                                const std::vector<std::string>& cfg_options);

/// Throws Error (usage) if an argument that `command` needs is empty.
void require_given(const std::string& value, const std::string& name, const std::string& command);
/// Throws Error (usage) if there are words that `command` does not take.
void refuse_words(const std::vector<std::string>& words, const std::string& command);

Declaration declare_train(CLI::App& parent);
Declaration declare_eval(CLI::App& parent);
Declaration declare_predict(CLI::App& parent);
Declaration declare_config(CLI::App& parent);
Declaration declare_make_shapes(CLI::App& parent);
Declaration declare_convert_dataset(CLI::App& parent);
Declaration declare_convert_weights(CLI::App& parent);
Declaration declare_inspect(CLI::App& parent);
Declaration declare_bench(CLI::App& parent);
Declaration declare_replay(CLI::App& parent);
Declaration declare_doctor(CLI::App& parent);

}  // namespace detforge
