#include "detforge/distributed/process_group.h"

#include <atomic>
#include <csignal>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/distributed/c10d_store.h"
#include "detforge/distributed/fault_drill.h"
#include "detforge/distributed/gloo_waits.h"
#include "detforge/distributed/key_store.h"
#include "detforge/distributed/network.h"
#include "detforge/distributed/presence.h"
#include "detforge/distributed/rendezvous.h"

namespace detforge {
namespace {

using std::chrono::milliseconds;

/// What all channels of a rank share. Its end is the rank's: who serves the store stays until the
/// others have left, or for a few seconds if they cannot.
struct Shared {
  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    presence.reset();
    if (store == nullptr || is_cut_off) {
      return;
    }
    try {
      const std::string left = store_prefix(options.place) + "/left";
      store->add(left, 1);
      const Timer timer;
      while (options.place.serves_store && store->add(left, 0) < options.place.world_size &&
             timer.elapsed_s() < kFarewell_s) {
        std::this_thread::sleep_for(milliseconds(20));
      }
    } catch (const Error&) {
      // There is nobody left to take leave of.
    }
  }

  static constexpr double kFarewell_s = 5;
  ProcessGroupOptions options;
  std::string address;  ///< of this rank
  std::shared_ptr<KeyStore> store;
  std::unique_ptr<Presence> presence;
  std::atomic<bool> is_cut_off = false;  ///< from the store: it need not be asked again
  std::optional<FaultDrill> drill = FaultDrill::from_environment();
};

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<Shared> shared, const std::string& name)
      : shared_(std::move(shared)), name_(name) {
    const ProcessPlace& place = shared_->options.place;
    auto options = c10d::ProcessGroupGloo::Options::create(shared_->options.timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(shared_->address));
    options->threads = 1;  // calls of a channel follow each other
    const auto store = c10::make_intrusive<c10d::PrefixStore>(
        store_prefix(place) + "/" + name,
        dynamic_cast<const HasC10dStore&>(*shared_->store).c10d_store());
    watched("meeting", [&] {
      group_ = c10::make_intrusive<Gloo>(store, static_cast<int>(place.rank),
                                         static_cast<int>(place.world_size), options);
    });
    waits_->open(group_.get());
    shared_->presence->on_failure([weak = std::weak_ptr(waits_)] {
      if (const auto waits = weak.lock()) {
        waits->end();
      }
    });
  }
  ~GlooCommunicator() override {
    waits_->open(nullptr);
    if (waits_->has_ended()) {
      group_.release();  // its end would wait for its threads, and they for the deadline
    }
  }

  std::int64_t rank() const override { return shared_->options.place.rank; }
  std::int64_t world_size() const override { return shared_->options.place.world_size; }

  void all_reduce_sum_(Tensor& tensor) override {
    std::vector<Tensor> tensors{tensor};
    watched("a sum over ranks", [&] { waits_->wait_for(group_->allreduce(tensors)); });
  }

  void broadcast_(Tensor& tensor, std::int64_t root) override {
    std::vector<Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    watched("a broadcast", [&] { waits_->wait_for(group_->broadcast(tensors, options)); });
  }

  Tensor all_to_all(const Tensor& rows) override {
    Tensor from = as_bytes(rows), result = at::empty_like(rows, at::MemoryFormat::Contiguous);
    Tensor to = as_bytes(result);
    std::vector<std::int64_t> equal_parts;
    watched("an exchange",
            [&] { waits_->wait_for(group_->alltoall_base(to, from, equal_parts, equal_parts)); });
    return result;
  }

  Tensor all_gather(const Tensor& row) override {
    const Tensor result = at::empty({world_size(), row.numel()}, row.options());
    std::vector<Tensor> from{as_bytes(row)};
    std::vector<std::vector<Tensor>> to(1);
    for (std::int64_t i = 0; i < world_size(); ++i) {
      to[0].push_back(as_bytes(result[i]));
    }
    watched("a gathering", [&] { waits_->wait_for(group_->allgather(to, from)); });
    return result;
  }

  std::vector<std::string> gather(const std::string& bytes) override {
    const Tensor size = at::empty({1}, at::kLong);
    *size.data_ptr<std::int64_t>() = static_cast<std::int64_t>(bytes.size());
    const Tensor sizes = all_gather(size);
    if (rank() != 0) {
      send(bytes);
      return {};
    }
    std::vector<std::string> all{bytes};
    for (std::int64_t from = 1; from < world_size(); ++from) {
      all.push_back(receive(from, sizes.data_ptr<std::int64_t>()[from]));
    }
    return all;
  }

  void barrier() override;

  std::unique_ptr<Communicator> channel(const std::string& name) override {
    return std::make_unique<GlooCommunicator>(shared_,
                                              fmt::format("{}/{}.{}", name_, name, channels_++));
  }

  void enter(const char* phase, std::int64_t iteration) override {
    shared_->presence->enter(phase, iteration, /*is_patient=*/false);
    rehearse(phase, iteration);
  }
  void progress() override { shared_->presence->progress(); }
  void serial_work(const char* phase) override {
    shared_->presence->enter(phase, -1, /*is_patient=*/true);
    rehearse(phase, -1);
  }
  void give_up(const std::string& reason) override {
    const std::string prefix = store_prefix(shared_->options.place);
    std::optional<RankState> state;
    try {
      shared_->presence->tell();
      state = read_state(*shared_->store, prefix, rank());
    } catch (const Error&) {
      return;  // nobody can hear it any more
    }
    shared_->presence->report_failure(
        fmt::format("{} failed: {}", describe_rank(rank(), state), reason));
  }
  bool claim_rescue() override {
    shared_->presence->enter(kRescuePhase, -1, /*is_patient=*/true);
    if (shared_->is_cut_off) {
      return rank() <= 1;  // the meeting place is gone, and most likely rank 0 with it
    }
    if (rank() != 0) {
      std::this_thread::sleep_for(shared_->options.heartbeat);  // the first claim wins
    }
    try {
      return shared_->store->add(store_prefix(shared_->options.place) + "/rescue", 1) == 1;
    } catch (const Error&) {
      return rank() <= 1;
    }
  }

 private:
  void rehearse(const char* phase, std::int64_t iteration) {
    if (shared_->drill) {
      shared_->drill->at(rank(), phase, iteration);
    }
  }

  static Tensor as_bytes(const Tensor& tensor) {
    return at::from_blob(tensor.data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())},
                         at::TensorOptions(at::kByte));
  }

  /// Runs a collective; its failure becomes an error that says who is the cause.
  template <typename Call>
  void watched(const char* what, const Call& call) {
    const Timer timer;
    const Presence::Waiting waiting(*shared_->presence);
    try {
      call();
    } catch (const std::exception&) {
      fail(what, timer.elapsed_s());
    }
  }

  [[noreturn]] void fail(const std::string& what, double waited_s) {
    Presence& presence = *shared_->presence;
    const std::string cause = presence.diagnose(waited_s);
    shared_->is_cut_off = !presence.reaches_store();
    presence.report_failure(cause);
    throw CommunicationError(
        fmt::format("{} failed after {:.1f} s: {}", what, waited_s, cause),
        "see the output of the ranks that are named; then continue with --resume. A rank may keep "
        "others waiting for DISTRIBUTED.TIMEOUT_S seconds");
  }

  // Gloo counts bytes of a message in int.
  static constexpr std::int64_t kMostBytes = 1 << 30;

  void send(const std::string& bytes) {
    for (std::size_t begin = 0; begin < bytes.size(); begin += kMostBytes) {
      const auto size = static_cast<std::int64_t>(
          std::min<std::size_t>(bytes.size() - begin, static_cast<std::size_t>(kMostBytes)));
      std::vector<Tensor> part{at::from_blob(const_cast<char*>(bytes.data() + begin), {size},
                                             at::TensorOptions(at::kByte))};
      watched("a gathering", [&] { waits_->wait_for_message(group_->send(part, 0, 0)); });
    }
  }

  std::string receive(std::int64_t from, std::int64_t size) {
    std::string bytes(static_cast<std::size_t>(size), '\0');
    for (std::int64_t begin = 0; begin < size; begin += kMostBytes) {
      std::vector<Tensor> part{at::from_blob(bytes.data() + begin,
                                             {std::min(size - begin, kMostBytes)},
                                             at::TensorOptions(at::kByte))};
      watched("a gathering",
              [&] { waits_->wait_for_message(group_->recv(part, static_cast<int>(from), 0)); });
    }
    return bytes;
  }

  std::shared_ptr<Shared> shared_;
  std::string name_;
  std::shared_ptr<GlooWaits> waits_ = std::make_shared<GlooWaits>();
  c10::intrusive_ptr<Gloo> group_;
  std::int64_t barriers_ = 0, channels_ = 0;
};

/// A counter in the store. Who is missing is looked at again and again: as long as it gets on, or
/// works at what may take any time, and its process lives, it is waited for.
void GlooCommunicator::barrier() {
  const std::string key =
      fmt::format("{}/barrier/{}/{}", store_prefix(shared_->options.place), name_, ++barriers_);
  Presence& presence = *shared_->presence;
  const Presence::Waiting waiting(presence);
  const double timeout_s = static_cast<double>(shared_->options.timeout.count()) / 1000;
  const Timer all;
  Timer look, silence;
  std::vector<std::optional<RankState>> before;
  shared_->store->add(key, 1);
  for (milliseconds pause{1}; shared_->store->add(key, 0) < world_size();
       pause = std::min(pause * 2, milliseconds(100))) {
    std::this_thread::sleep_for(pause);
    if (look.elapsed_s() < std::min(1.0, timeout_s / 8)) {
      continue;
    }
    look.restart();
    if (presence.failure()) {
      fail("waiting for all ranks", all.elapsed_s());
    }
    const auto now = presence.states();
    for (std::size_t i = 0; i < now.size() && i < before.size(); ++i) {
      if (!now[i] || !before[i] || now[i]->waits) {
        continue;
      }
      const bool lives = now[i]->beat != before[i]->beat;
      if (now[i]->progress != before[i]->progress || (lives && now[i]->is_patient)) {
        silence.restart();
      }
    }
    before = now;
    if (silence.elapsed_s() > timeout_s) {
      fail("waiting for all ranks", all.elapsed_s());
    }
  }
}

/// A store that vanishes before all are there was that of an earlier run: the next one is waited
/// for.
std::vector<std::string> meet_somewhere(Shared& shared, const KeyStore::Place& meeting) {
  const ProcessGroupOptions& options = shared.options;
  const Timer timer;
  for (;;) {
    shared.store = options.place.serves_store ? KeyStore::serve(meeting)
                                              : KeyStore::connect(meeting, options.timeout);
    try {
      return meet(*shared.store, options, shared.address);
    } catch (const Error& error) {
      const bool is_gone = !shared.store->answers();
      if (!is_gone) {
        report_failure(*shared.store, store_prefix(options.place), error.what());
      }
      const double limit_s = static_cast<double>(options.timeout.count()) / 1000;
      if (!is_gone || options.place.serves_store || timer.elapsed_s() > limit_s) {
        throw;
      }
    }
  }
}

}  // namespace

std::string store_prefix(const ProcessPlace& place) {
  return "detforge/" + place.attempt;
}

std::unique_ptr<Communicator> join_process_group(const ProcessGroupOptions& options) {
  // Gloo writes to the connections of ranks that died: that has to fail, not to end this process.
  std::signal(SIGPIPE, SIG_IGN);
  const ProcessPlace& place = options.place;
  auto shared = std::make_shared<Shared>();
  shared->options = options;
  shared->address = choose_local_address(place.local_addr, place.master_addr, place.master_port);
  if (place.local_world_size < place.world_size && is_loopback(shared->address)) {
    throw Error(
        fmt::format("this machine would be reached at {}, which other machines cannot do",
                    shared->address),
        fmt::format("the master address is {}: give that of rank 0's machine in the network",
                    place.master_addr),
        Error::Kind::kUsage);
  }
  const KeyStore::Place meeting{place.master_addr, place.master_port};
  const std::vector<std::string> addresses = meet_somewhere(*shared, meeting);
  shared->presence =
      std::make_unique<Presence>(KeyStore::connect(shared->store->place(), options.timeout),
                                 Presence::Options{.rank = place.rank,
                                                   .world_size = place.world_size,
                                                   .prefix = store_prefix(place),
                                                   .interval = options.heartbeat});
  auto communicator = std::make_unique<GlooCommunicator>(shared, "main");
  log::info("rank {} of {}, started by {}, met at {}:{}; addresses: {}", place.rank,
            place.world_size, place.started_by, meeting.host, shared->store->place().port,
            fmt::join(addresses, " "));
  return communicator;
}

}  // namespace detforge
