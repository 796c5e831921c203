#include "detforge/cli/arguments.h"

#include <cctype>
#include <charconv>
#include <iostream>

#include <fmt/format.h>

#include "detforge/cli/declare.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

constexpr int kHelpColumn = 30;

Error usage_error(const std::string& what, const std::string& fix) {
  return Error(what, fix, Error::Kind::kUsage);
}

/// CLI11's help with our own usage line, since trailing words (KEY VALUE) are unknown to CLI11.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {
    column_width(kHelpColumn);
  }
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " " + usage_ + "\n";
  }

 private:
  std::string usage_;
};

HeightWidth parse_size(const std::string& text) {
  HeightWidth size;
  const char* const end = text.data() + text.size();
  const auto height = std::from_chars(text.data(), end, size.height);
  const bool has_x = height.ec == std::errc() && height.ptr != end && *height.ptr == 'x';
  const auto width = std::from_chars(has_x ? height.ptr + 1 : end, end, size.width);
  if (!has_x || width.ec != std::errc() || width.ptr != end || size.height < 1 || size.width < 1) {
    throw usage_error("--size " + text + " is not HEIGHTxWIDTH", "for example --size 800x1344");
  }
  return size;
}

/// Words that look like options but were not declared. Negative numbers are values.
void refuse_unknown_options(const std::string& command, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.starts_with("--") || (word.size() > 1 && word[0] == '-' &&
                                   std::isalpha(static_cast<unsigned char>(word[1])) != 0)) {
      throw usage_error("unknown option " + word, "see `detforge " + command + " --help`");
    }
  }
}

/// The command that was given, down to the one that has no commands below it, and its full name.
struct Chosen {
  const CLI::App* app = nullptr;
  std::string name;  ///< "convert dataset"
};

Chosen chosen_command(const CLI::App& app) {
  Chosen chosen{.app = &app, .name = {}};
  while (!chosen.app->get_subcommands().empty()) {
    chosen.app = chosen.app->get_subcommands().front();
    chosen.name += (chosen.name.empty() ? "" : " ") + chosen.app->get_name();
  }
  return chosen;
}

/// Finds the command called `word`, or, for one of the options of `app` itself, nullptr.
const CLI::App* check_word(const CLI::App& app, const std::string& word, const std::string& help) {
  if (word == "-h" || word == "--help" || word == "--version") {
    return nullptr;
  }
  if (word.starts_with('-')) {
    throw usage_error("unknown option " + word, "options come after the command: see " + help);
  }
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) {
      return command;
    }
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw usage_error("unknown command \"" + word + "\"", "use one of " + names);
}

/// The words that must be commands: the first, and those behind a command with commands below it.
void check_commands(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  std::string name = "detforge";
  for (int i = 1;
       at != nullptr && !at->get_subcommands([](const CLI::App*) { return true; }).empty(); ++i) {
    const std::string help = "`" + name + " --help`";
    if (i >= argc) {
      throw usage_error("no command given", "see " + help);
    }
    at = check_word(*at, argv[i], help);
    name += std::string(" ") + argv[i];
  }
}

}  // namespace

CLI::App* add_command(CLI::App& parent, const std::string& name, const CommandText& text) {
  CLI::App* app = parent.add_subcommand(name, text.description);
  app->formatter(std::make_shared<HelpFormatter>(text.usage));
  app->set_help_flag("-h,--help", "Print this text");
  app->add_flag_callback(
      "-v,--verbose", [] { log::set_level(log::Level::kDebug); }, "Log more");
  app->footer("Examples:\n" + text.examples);
  // Trailing words are taken from remaining(): CLI11 would split a value like [1,2].
  app->allow_extras();
  return app;
}

CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& description) {
  CLI::App* app = parent.add_subcommand(name, description);
  app->formatter(std::make_shared<HelpFormatter>("WHAT [OPTIONS]"));
  app->set_help_flag("-h,--help", "Print this text");
  app->require_subcommand(1);
  return app;
}

void add_cfg_options(CLI::App& app, std::vector<std::string>& out) {
  app.add_option("--cfg-options", out, "Override of the config; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->take_all();
}

void add_threads(CLI::App& app, int& out) {
  app.add_option("--threads", out, "CPU threads; 0 = all usable cores")
      ->type_name("N")
      ->check(CLI::Range(0, 1024).description(""))
      ->capture_default_str();
}

void add_ranks(CLI::App& app, RankArguments& out) {
  const auto count = [&](const char* name, std::int64_t& value, const char* text) {
    return app.add_option(name, value, text)
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20).description(""));
  };
  count("--nproc", out.nproc,
        "Ranks to start on this machine; else what torchrun, mpirun or srun started");
  count("--nnodes", out.nnodes, "Machines; each runs this command with its --node-rank")
      ->capture_default_str();
  count("--node-rank", out.node_rank, "Number of this machine, from 0")->capture_default_str();
  app.add_option("--master-addr", out.master_addr, "Address of machine 0")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--master-port", out.master_port,
                 "Port there; 0 = a free one, if there is one machine")
      ->type_name("N")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  app.add_option("--local-addr", out.local_addr,
                 "Address or interface of this machine; else the one on the way to the master")
      ->type_name("ADDRESS");
  app.add_flag("--bind-cores", out.bind_cores, "Gives each rank its own part of the cores");
}

void add_allocator(CLI::App& app, Allocator& out) {
  app.add_option_function<std::string>(
         "--allocator",
         [&out](const std::string& name) {
           out = name == "system" ? Allocator::kSystem : Allocator::kCaching;
         },
         "Memory of tensors: caching (kept for the next step) or system (malloc)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"caching", "system"}).description(""))
      ->default_str("caching");
}

void add_size(CLI::App& app, HeightWidth& out, const std::string& description) {
  app.add_option_function<std::string>(
         "--size", [&out](const std::string& text) { out = parse_size(text); }, description)
      ->type_name("HEIGHTxWIDTH")
      ->default_str(out.height > 0 ? fmt::format("{}x{}", out.height, out.width) : "the recipe's");
}

std::vector<std::string> joined(const std::vector<std::string>& words,
                                const std::vector<std::string>& cfg_options) {
  std::vector<std::string> all = words;
  all.insert(all.end(), cfg_options.begin(), cfg_options.end());
  return all;
}

void require_given(const std::string& value, const std::string& name, const std::string& command) {
  if (value.empty()) {
    throw Error(name + " is missing", "see `detforge " + command + " --help`", Error::Kind::kUsage);
  }
}

void refuse_words(const std::vector<std::string>& words, const std::string& command) {
  if (!words.empty()) {
    throw Error("unexpected \"" + words.front() + "\"", "see `detforge " + command + " --help`",
                Error::Kind::kUsage);
  }
}

std::optional<Command> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Trains, evaluates and runs object detectors, natively.", "detforge");
  app.formatter(std::make_shared<HelpFormatter>("COMMAND [OPTIONS]"));
  app.set_help_flag("-h,--help", "Print this text");
  app.set_version_flag("--version", "detforge " DETFORGE_VERSION);
  app.footer(
      "`detforge COMMAND --help` tells more. Exit status: 0 done, 1 failed run, 2 wrong usage or "
      "config.");
  app.require_subcommand(1);
  CLI::App& convert =
      *add_group(app, "convert", "Convert datasets (COCO, YOLO, Pascal VOC) and weights (Darknet)");
  const Declaration declarations[] = {declare_train(app),
                                      declare_eval(app),
                                      declare_predict(app),
                                      declare_config(app),
                                      declare_make_shapes(app),
                                      declare_convert_dataset(convert),
                                      declare_convert_weights(convert),
                                      declare_inspect(app),
                                      declare_bench(app),
                                      declare_replay(app),
                                      declare_doctor(app)};
  check_commands(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help or --version
    app.exit(e, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    const std::string command = chosen_command(app).name;
    throw usage_error(e.what(),
                      "see `detforge " + command + (command.empty() ? "" : " ") + "--help`");
  }
  const Chosen chosen = chosen_command(app);
  for (const Declaration& declaration : declarations) {
    if (declaration.app == chosen.app) {
      const auto words = chosen.app->remaining();
      refuse_unknown_options(chosen.name, words);
      return declaration.finish(words);
    }
  }
  throw usage_error("no command given", "see `detforge --help`");
}

}  // namespace detforge
