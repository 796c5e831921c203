#include "detforge/distributed/key_store.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "detforge/core/timer.h"
#include "detforge/distributed/c10d_store.h"
#include "detforge/distributed/communicator.h"
#include "detforge/distributed/network.h"

namespace detforge {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAnswer{10000};   // of a server that is there, on a busy machine
constexpr milliseconds kGreeting{4000};  // of whatever accepted the connection
constexpr milliseconds kNextAttempt{100};

/// The first line of c10d's message; the rest is a backtrace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// A thread that asks the store. c10d waits for an answer without end if the network is cut: then
/// the thread is left behind, and who asked goes on.
class Asker {
 public:
  Asker() : state_(std::make_shared<State>()) {
    std::thread([state = state_] { state->run(); }).detach();
  }
  ~Asker() {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_all();
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  /// False if there is no answer in time, then and ever after.
  bool ask(std::function<void()> question) {
    std::packaged_task<void()> task(std::move(question));
    std::future<void> answer = task.get_future();
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->is_stuck) {
        return false;
      }
      state_->tasks.push_back(std::move(task));
      state_->wake.notify_all();
    }
    if (answer.wait_for(kAnswer) != std::future_status::ready) {
      const std::lock_guard lock(state_->mutex);
      state_->is_stuck = true;
      return false;
    }
    answer.get();
    return true;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::packaged_task<void()>> tasks;
    bool stop = false, is_stuck = false;

    void run() {
      std::unique_lock lock(mutex);
      for (;;) {
        wake.wait(lock, [this] { return stop || !tasks.empty(); });
        if (tasks.empty() || is_stuck) {
          return;
        }
        std::packaged_task<void()> task = std::move(tasks.front());
        tasks.pop_front();
        lock.unlock();
        task();
        lock.lock();
      }
    }
  };
  std::shared_ptr<State> state_;
};

class TcpKeyStore final : public KeyStore, public HasC10dStore {
 public:
  TcpKeyStore(Place place, c10::intrusive_ptr<c10d::TCPStore> store)
      : place_(std::move(place)), store_(std::move(store)) {}
  const Place& place() const override { return place_; }
  c10::intrusive_ptr<c10d::Store> c10d_store() const override { return store_; }

  void set(const std::string& key, const std::string& value) override {
    const std::vector<std::uint8_t> bytes(value.begin(), value.end());
    ask<bool>([=, store = store_] {
      store->set(key, bytes);
      return true;
    });
  }
  std::optional<std::string> get(const std::string& key) override {
    return ask<std::optional<std::string>>([=, store = store_]() -> std::optional<std::string> {
      if (!store->check({key})) {
        return std::nullopt;
      }
      const std::vector<std::uint8_t> value = store->get(key);
      return std::string(value.begin(), value.end());
    });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return ask<std::int64_t>([=, store = store_] { return store->add(key, amount); });
  }

 private:
  /// What the question needs and its answer may outlive this call: it holds copies.
  template <typename Answer, typename Question>
  Answer ask(const Question& question) {
    std::string reason = fmt::format("no answer within {} s", kAnswer.count() / 1000);
    try {
      const auto answer = std::make_shared<Answer>();
      if (asker_.ask([answer, question] { *answer = question(); })) {
        return *answer;
      }
    } catch (const std::exception& error) {
      reason = first_line(error);
    }
    throw CommunicationError(
        fmt::format("the meeting place of the ranks at {}:{} does not answer any more ({})",
                    place_.host, place_.port, reason),
        "what served it (rank 0, or the program that started the ranks of its machine) has ended "
        "or cannot be reached: see its output");
  }

  Place place_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
  Asker asker_;
};

c10d::TCPStoreOptions options_of(const KeyStore::Place& place, bool serves) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = kAnswer;
  return options;
}

/// c10d waits for ever for the greeting of a server that is not one: in a thread of its own, which
/// is left behind then.
std::shared_ptr<KeyStore> greet(const KeyStore::Place& place) {
  std::promise<std::shared_ptr<KeyStore>> promise;
  std::future<std::shared_ptr<KeyStore>> answer = promise.get_future();
  std::thread([place, promise = std::move(promise)]() mutable {
    try {
      auto store =
          c10::make_intrusive<c10d::TCPStore>(place.host, options_of(place, /*serves=*/false));
      store->check({"greeting"});
      promise.set_value(std::make_shared<TcpKeyStore>(place, std::move(store)));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  return answer.wait_for(kGreeting) == std::future_status::ready ? answer.get() : nullptr;
}

}  // namespace

std::shared_ptr<KeyStore> KeyStore::serve(const Place& place) {
  try {
    auto store =
        c10::make_intrusive<c10d::TCPStore>(place.host, options_of(place, /*serves=*/true));
    const Place found{place.host, store->getPort()};
    return std::make_shared<TcpKeyStore>(found, std::move(store));
  } catch (const std::exception& error) {
    if (place.port != 0 && accepts_connections(place.host, place.port, 1)) {
      throw Error(fmt::format("port {} of {} is in use, by {}", place.port, place.host,
                              owner_of_port(place.port)),
                  "choose another port (--master-port, MASTER_PORT), or end that program",
                  Error::Kind::kUsage);
    }
    throw Error(
        fmt::format("cannot listen on {}:{}: {}", place.host, place.port, first_line(error)),
        "rank 0 must run on the machine whose address this is: check --master-addr and "
        "--master-port",
        Error::Kind::kUsage);
  }
}

std::shared_ptr<KeyStore> KeyStore::connect(const Place& place, milliseconds timeout) {
  const Timer timer;
  while (!accepts_connections(place.host, place.port, 1)) {
    if (timer.elapsed_s() * 1000 > static_cast<double>(timeout.count())) {
      throw CommunicationError(
          fmt::format("nothing listens at {}:{} after {} s", place.host, place.port,
                      timeout.count() / 1000),
          "start rank 0 on that machine; check its address, the port and firewalls (detforge "
          "doctor --master-addr tests them)");
    }
    std::this_thread::sleep_for(kNextAttempt);
  }
  std::string reason = "it does not answer";
  try {
    if (auto store = greet(place)) {
      return store;
    }
  } catch (const std::exception& error) {
    reason = first_line(error);
  }
  throw CommunicationError(
      fmt::format("what listens at {}:{} is not a DetForge run: {}", place.host, place.port,
                  reason),
      "another program uses the port: choose another one for all ranks (--master-port, "
      "MASTER_PORT)");
}

}  // namespace detforge
