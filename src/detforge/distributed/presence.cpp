#include "detforge/distributed/presence.h"

#include <array>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"

namespace detforge {
namespace {

std::string host_name() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string to_text(const RankState& state) {
  return nlohmann::json{{"host", state.host},         {"pid", state.pid},
                        {"phase", state.phase},       {"iteration", state.iteration},
                        {"progress", state.progress}, {"beat", state.beat},
                        {"waits", state.waits},       {"patient", state.is_patient}}
      .dump();
}

RankState from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.host = json.at("host"),
          .pid = json.at("pid"),
          .phase = json.at("phase"),
          .iteration = json.at("iteration"),
          .progress = json.at("progress"),
          .beat = json.at("beat"),
          .waits = json.at("waits"),
          .is_patient = json.at("patient")};
}

std::string state_key(const std::string& prefix, std::int64_t rank) {
  return fmt::format("{}/state/{}", prefix, rank);
}

}  // namespace

std::optional<RankState> read_state(KeyStore& store, const std::string& prefix, std::int64_t rank) {
  const auto text = store.get(state_key(prefix, rank));
  return text ? std::optional(from_text(*text)) : std::nullopt;
}

std::string describe_rank(std::int64_t rank, const std::optional<RankState>& state) {
  if (!state) {
    return fmt::format("rank {} (not seen yet)", rank);
  }
  return fmt::format("rank {} ({}, pid {}), last phase: {}{}", rank, state->host, state->pid,
                     state->phase,
                     state->iteration < 0 ? "" : fmt::format(" of iteration {}", state->iteration));
}

void report_failure(KeyStore& store, const std::string& prefix, const std::string& text) {
  try {
    if (store.add(prefix + "/failures", 1) == 1) {
      store.set(prefix + "/failure", text);
    }
  } catch (const Error&) {
    // Then the others find out by themselves that the meeting place is gone.
  }
}

std::optional<std::string> read_failure(KeyStore& store, const std::string& prefix) {
  return store.get(prefix + "/failure");
}

Presence::Presence(std::shared_ptr<KeyStore> store, Options options)
    : store_(std::move(store)), options_(std::move(options)), host_(host_name()) {
  tell();
  thread_ = std::thread([this] { run(); });
}

Presence::~Presence() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Presence::enter(const char* phase, std::int64_t iteration, bool is_patient) {
  phase_ = phase;
  iteration_ = iteration;
  is_patient_ = is_patient;
  ++progress_;
}

void Presence::progress() {
  ++progress_;
}

void Presence::tell() {
  const std::lock_guard lock(telling_);
  store_->set(state_key(options_.prefix, options_.rank), to_text({.host = host_,
                                                                  .pid = ::getpid(),
                                                                  .phase = phase_.load(),
                                                                  .iteration = iteration_,
                                                                  .progress = progress_,
                                                                  .beat = ++beat_,
                                                                  .waits = waiting_ > 0,
                                                                  .is_patient = is_patient_}));
}

void Presence::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    bool fails_now = false;
    try {
      tell();
      fails_now = !failed_ && failure().has_value();
    } catch (const Error&) {
      fails_now = !failed_;  // the meeting place is gone, and with it the run
    }
    lock.lock();
    if (fails_now && !stop_) {
      failed_ = true;
      for (const auto& callback : callbacks_) {
        callback();
      }
    }
    wake_.wait_for(lock, options_.interval, [this] { return stop_; });
  }
}

void Presence::report_failure(const std::string& text) {
  detforge::report_failure(*store_, options_.prefix, text);
}

std::optional<std::string> Presence::failure() {
  return read_failure(*store_, options_.prefix);
}

void Presence::on_failure(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (failed_) {
    callback();
  } else {
    callbacks_.push_back(std::move(callback));
  }
}

std::vector<std::optional<RankState>> Presence::states() {
  std::vector<std::optional<RankState>> all;
  for (std::int64_t rank = 0; rank < options_.world_size; ++rank) {
    all.push_back(read_state(*store_, options_.prefix, rank));
  }
  return all;
}

std::string Presence::diagnose(double waited_s) {
  try {
    if (const auto text = failure()) {
      return *text;
    }
    const auto before = states();
    std::this_thread::sleep_for(options_.interval * 5 / 2);
    if (const auto text = failure()) {
      return *text;
    }
    const auto after = states();
    std::vector<std::string> dead, busy;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto rank = static_cast<std::int64_t>(i);
      if (rank == options_.rank) {
        continue;
      }
      if (!after[i] || (before[i] && before[i]->beat == after[i]->beat)) {
        dead.push_back(describe_rank(rank, after[i]));
      } else if (!after[i]->waits) {
        busy.push_back(describe_rank(rank, after[i]));
      }
    }
    if (!dead.empty()) {
      return fmt::format("no sign of life (killed, stopped or cut off) of {}",
                         fmt::join(dead, "; "));
    }
    return busy.empty()
               ? fmt::format("all ranks live and wait for each other, after {:.0f} s", waited_s)
               : fmt::format("alive, but not here after {:.0f} s: {}", waited_s,
                             fmt::join(busy, "; "));
  } catch (const Error& error) {
    reaches_store_ = false;
    return error.message();
  } catch (const std::exception& error) {
    return fmt::format("the states of the ranks cannot be read: {}", error.what());
  }
}

}  // namespace detforge
