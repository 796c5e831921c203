#include "detforge/cli/precision_modes.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

/// An empty file of its own name, gone with the object.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / "detforge-bench-XXXXXX").string()) {
    const int file = ::mkstemp(path_.data());
    DETFORGE_CHECK(file >= 0, "no temporary file can be made like " + path_,
                   "set TMPDIR to a folder that can be written");
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> bench_words(const BenchArguments& a, const std::string& mode) {
  std::vector<std::string> words{
      "detforge",    "bench",
      "train",       a.config,
      "--batch",     std::to_string(std::max<std::int64_t>(1, a.batch)),
      "--objects",   std::to_string(a.objects),
      "--iters",     std::to_string(a.iters),
      "--threads",   std::to_string(a.threads),
      "--allocator", a.allocator == Allocator::kCaching ? "caching" : "system"};
  if (a.size.height > 0) {
    words.insert(words.end(), {"--size", fmt::format("{}x{}", a.size.height, a.size.width)});
  }
  words.insert(words.end(), a.overrides.begin(), a.overrides.end());
  for (const std::string& word : mode_overrides(mode)) {
    words.push_back(word);
  }
  return words;
}

/// Runs this program anew, without its output. Its exit status, 128 + signal if it was killed.
int run_self(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  DETFORGE_CHECK(error == 0, fmt::format("cannot start a process: {}", std::strerror(error)),
                 "free memory, or raise the limit of processes");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Measured {
  std::string mode;
  double seconds, peak_mib, loss;
};

/// The size of about `share` of the pixels, in whole multiples of 32.
HeightWidth smaller_size(HeightWidth size, double share) {
  const auto side = [share](std::int64_t pixels) {
    const double scaled = static_cast<double>(pixels) * std::sqrt(share);
    return std::max<std::int64_t>(64, std::lround(scaled / 32) * 32);
  };
  return {side(size.height), side(size.width)};
}

double pixels_of(HeightWidth size) {
  return static_cast<double>(size.height) * static_cast<double>(size.width);
}

struct Prediction {
  nlohmann::json parts;  ///< of what is there for every image size
  double peak_mib;
};

/// A step's peak at the full size from those at two smaller ones: it is linear in the number of
/// pixels. Of images too small for that, the peak itself.
Prediction predict(const BenchArguments& bench, const std::string& mode) {
  BenchArguments small = bench, medium = bench;
  small.size = smaller_size(bench.size, 0.5);
  medium.size = smaller_size(bench.size, 0.75);
  if (pixels_of(small.size) >= pixels_of(medium.size) ||
      pixels_of(medium.size) >= pixels_of(bench.size)) {
    const nlohmann::json whole = bench_in_child(bench, mode);
    return {.parts = whole.at("memory"), .peak_mib = whole.at("peak_rss_mib")};
  }
  const nlohmann::json low = bench_in_child(small, mode), high = bench_in_child(medium, mode);
  const double low_peak = low.at("peak_rss_mib"), high_peak = high.at("peak_rss_mib");
  const double slope = (high_peak - low_peak) / (pixels_of(medium.size) - pixels_of(small.size));
  return {.parts = high.at("memory"),
          .peak_mib = high_peak + slope * (pixels_of(bench.size) - pixels_of(medium.size))};
}

void check_modes(const std::vector<std::string>& modes) {
  for (const std::string& mode : modes) {
    mode_overrides(mode);  // throws
  }
}

}  // namespace

std::vector<std::string> mode_overrides(const std::string& mode) {
  std::vector<std::string> words;
  std::string rest = mode;
  const auto take = [&rest](const std::string& part) {
    const bool is_there = rest.ends_with(part);
    rest.resize(rest.size() - (is_there ? part.size() : 0));
    return is_there;
  };
  words.insert(words.end(), {"MODEL.BACKBONE.CHECKPOINT", take("-checkpoint") ? "True" : "False"});
  const bool is_bf16 = take("-bf16");
  words.insert(words.end(), {"HALF_TYPE", is_bf16 ? "bf16" : "fp16"});
  if (rest == "o1" || rest == "o2" || rest == "o3") {
    words.insert(words.end(), {"AMP", "1", "OPT_LEVEL", "O" + rest.substr(1)});
  } else if ((rest == "fp32" || rest == "hf32") && !is_bf16) {
    const std::vector<std::string> f32 = f32_overrides(rest == "fp32" ? "highest" : "high");
    words.insert(words.end(), f32.begin(), f32.end());
  } else {
    throw Error("there is no mode \"" + mode + "\"",
                "use fp32, hf32, o1, o2 or o3, the last three also with -bf16, all also with "
                "-checkpoint (o2-bf16-checkpoint)",
                Error::Kind::kUsage);
  }
  return words;
}

nlohmann::json bench_in_child(const BenchArguments& arguments, const std::string& mode) {
  const TemporaryFile json;
  std::vector<std::string> words = bench_words(arguments, mode);
  words.insert(words.begin() + 4, {"--json", json.path()});
  const int status = run_self(words);
  DETFORGE_CHECK(status == 0, fmt::format("the benchmark of mode {} ended with {}", mode, status),
                 "what it said is above; a mode that overflows may need another LOSS_SCALE_VALUE");
  return nlohmann::json::parse(files::read(json.path()));
}

int bench_modes(const BenchArguments& arguments) {
  check_modes(arguments.modes);  // before measuring anything
  std::vector<Measured> all;
  for (const std::string& mode : arguments.modes) {
    log::info("measuring {}", mode);
    const nlohmann::json figures = bench_in_child(arguments, mode);
    all.push_back({mode, figures.at("seconds_per_step"), figures.at("peak_rss_mib"),
                   figures.at("total_loss")});
  }
  fmt::print("{:<22} {:>10} {:>8} {:>10} {:>8} {:>11} {:>11}\n", "mode", "s/step", "speed",
             "peak MiB", "memory", "total loss", "difference");
  const Measured& first = all.front();
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const Measured& m : all) {
    const double speed = first.seconds / m.seconds, memory = m.peak_mib / first.peak_mib;
    const double difference = m.loss / first.loss - 1;
    fmt::print("{:<22} {:>10.4f} {:>8.2f} {:>10.0f} {:>8.2f} {:>11.5g} {:>10.3f}%\n", m.mode,
               m.seconds, speed, m.peak_mib, memory, m.loss, 100 * difference);
    table.push_back({{"mode", m.mode},
                     {"seconds_per_step", m.seconds},
                     {"speed", speed},
                     {"peak_rss_mib", m.peak_mib},
                     {"memory", memory},
                     {"total_loss", m.loss},
                     {"loss_difference", difference}});
  }
  fmt::print(
      "speed and memory are relative to {}; its loss is of the first step, on made-up images\n",
      first.mode);
  if (!arguments.json.empty()) {
    files::write_atomic(arguments.json, table.dump() + "\n");
  }
  return 0;
}

void print_predicted_memory(const InspectArguments& arguments) {
  check_modes(arguments.modes);
  const BenchArguments bench{.task = "train",
                             .config = arguments.config,
                             .overrides = arguments.overrides,
                             .size = arguments.size,
                             .batch = arguments.batch,
                             .objects = arguments.objects,
                             .iters = 1,
                             .allocator = arguments.allocator};
  fmt::print(
      "predicted for {} image(s) of {}x{}, MiB\n{:<22} {:>8} {:>8} {:>9} {:>10} {:>22} {:>8}\n",
      arguments.batch, arguments.size.height, arguments.size.width, "mode", "weights", "masters",
      "momentum", "gradients", "activations and rest", "peak");
  for (const std::string& mode : arguments.modes) {
    const auto [parts, peak] = predict(bench, mode);
    const double weights = parts.at("weights_mib"), masters = parts.at("masters_mib"),
                 momentum = parts.at("momentum_mib"), gradients = parts.at("gradients_mib");
    fmt::print("{:<22} {:>8.0f} {:>8.0f} {:>9.0f} {:>10.0f} {:>22.0f} {:>8.0f}\n", mode, weights,
               masters, momentum, gradients, peak - weights - masters - momentum - gradients, peak);
  }
}

}  // namespace detforge
