#include "detforge/distributed/rendezvous.h"

#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/log.h"
#include "detforge/core/timer.h"

namespace detforge {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

std::string key_of(const std::string& prefix, const char* kind, std::int64_t rank) {
  return fmt::format("{}/{}/{}", prefix, kind, rank);
}

double seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

void claim_rank(KeyStore& store, const std::string& prefix, const ProcessPlace& place) {
  if (place.rank >= place.world_size || store.add(key_of(prefix, "claims", place.rank), 1) > 1) {
    throw Error(
        fmt::format("two processes claim to be rank {} of {}", place.rank, place.world_size),
        "each process needs its own rank (--node-rank, RANK); end processes that an earlier "
        "run left behind",
        Error::Kind::kUsage);
  }
}

}  // namespace

std::vector<std::string> meet(KeyStore& store,
                              const ProcessGroupOptions& options,
                              const std::string& own_address) {
  const ProcessPlace& place = options.place;
  const std::string prefix = store_prefix(place);
  claim_rank(store, prefix, place);
  store.set(key_of(prefix, "agreement", place.rank), options.agreement);
  store.set(key_of(prefix, "address", place.rank), own_address);  // last: now it is there
  const Timer timer;
  bool has_warned = false;
  std::vector<std::string> addresses(static_cast<std::size_t>(place.world_size));
  std::vector<std::int64_t> missing;
  for (;;) {
    missing.clear();
    for (std::int64_t rank = 0; rank < place.world_size; ++rank) {
      std::string& address = addresses[static_cast<std::size_t>(rank)];
      if (address.empty()) {
        address = store.get(key_of(prefix, "address", rank)).value_or("");
      }
      if (address.empty()) {
        missing.push_back(rank);
      }
    }
    if (missing.empty()) {
      break;
    }
    if (timer.elapsed_s() > seconds(options.timeout)) {
      throw CommunicationError(
          fmt::format("rank(s) {} of {} did not come to {}:{} within {:.0f} s",
                      fmt::join(missing, ", "), place.world_size, store.place().host,
                      store.place().port, seconds(options.timeout)),
          "start all ranks; those that cannot reach this address say so in their own output");
    }
    if (!has_warned && timer.elapsed_s() > seconds(options.patience)) {
      has_warned = true;
      log::warn("rank {} is waiting for rank(s) {} at {}:{}", place.rank, fmt::join(missing, ", "),
                store.place().host, store.place().port);
    }
    std::this_thread::sleep_for(kPoll);
  }
  const std::string first = store.get(key_of(prefix, "agreement", 0)).value_or("");
  if (first != options.agreement) {
    throw Error(fmt::format("rank {} has \"{}\", but rank 0 has \"{}\"", place.rank,
                            options.agreement, first),
                "start all ranks with the same program, recipe, overrides and number of ranks",
                Error::Kind::kUsage);
  }
  return addresses;
}

}  // namespace detforge
