// Runs a fuzz target without libFuzzer, as a regression test: every seed once, then mutations of
// the seeds, always the same ones, for some seconds.
//   NAME_replay SECONDS SEED_FOLDER

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<std::string> read_seeds(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      change(text);
    }
    return text;
  }

 private:
  /// The same numbers on every machine, which std's distributions do not promise.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : engine_() % bound; }

  void change(std::string& text) {
    static const std::string kBytes("\x00\x01\x7f\x80\xff-0[{\"", 10);
    const std::size_t at = below(text.size());
    const std::size_t length = below(std::min<std::size_t>(16, text.size() - at) + 1);
    const std::string& other = seeds_[below(seeds_.size())];
    switch (below(7)) {
      case 0:
        if (!text.empty()) {
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        }
        break;
      case 1:
        text.replace(at, std::min<std::size_t>(1, length), 1, kBytes[below(kBytes.size())]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), length));
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        text.replace(at, length, other.substr(below(other.size()), 1 + below(32)));
        break;
      default:
        text.insert(at, 1, static_cast<char>(below(256)));
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 engine_;
};

const std::string* current_input = nullptr;

/// Leaves the input that ended the program where it can be found.
void save_current_input(int signal) {
  constexpr const char* kPath = "replay-finding.bin";
  if (std::FILE* file = std::fopen(kPath, "wb"); file != nullptr && current_input != nullptr) {
    std::fwrite(current_input->data(), 1, current_input->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s/%s\n", fs::current_path().c_str(), kPath);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  current_input = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: NAME_replay SECONDS SEED_FOLDER\n", stderr);
    return 2;
  }
  const std::vector<std::string> seeds = read_seeds(argv[2]);
  if (seeds.empty()) {
    std::fputs("there is no seed in the folder\n", stderr);
    return 1;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) {
    std::signal(signal, save_current_input);
  }
  for (const std::string& seed : seeds) {
    run(seed);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::stoi(argv[1]));
  Mutator mutator(seeds);
  std::int64_t mutations = 0;
  while (std::chrono::steady_clock::now() < end) {
    run(mutator.next());
    ++mutations;
  }
  std::printf("%zu seeds and %lld mutations: no finding\n", seeds.size(),
              static_cast<long long>(mutations));
  return 0;
}
