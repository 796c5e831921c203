#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "detforge/distributed/key_store.h"

namespace detforge {

/// What one rank lets the others know about itself.
struct RankState {
  std::string host;
  std::int64_t pid = 0;
  std::string phase;            ///< "forward"
  std::int64_t iteration = -1;  ///< of the phase; -1: of none
  std::int64_t progress = 0;    ///< grows while the rank gets on
  std::int64_t beat = 0;        ///< grows while its process lives
  bool waits = false;           ///< for other ranks
  bool is_patient = false;      ///< in work that may take any time
};

/// The phase of a rank that keeps what all of them had.
inline constexpr const char* kRescuePhase = "saving what is left";

/// The state as rank `rank` told it last; nothing if it never did.
std::optional<RankState> read_state(KeyStore& store, const std::string& prefix, std::int64_t rank);

/// "rank 3 (node-a, pid 4711), last phase: backward of iteration 12"
std::string describe_rank(std::int64_t rank, const std::optional<RankState>& state);

/// Says once, for all ranks, why the run ends; the first text stays. Does not throw.
void report_failure(KeyStore& store, const std::string& prefix, const std::string& text);
/// The text of report_failure(), of any rank.
std::optional<std::string> read_failure(KeyStore& store, const std::string& prefix);

/// Tells all ranks, through the store, that this one lives and what it is doing, and watches
/// whether one of them has failed. A thread of its own does both every interval, so that a rank
/// whose main thread computes for minutes is not taken for dead, and one that is stopped or killed
/// is.
class Presence {
 public:
  struct Options {
    std::int64_t rank = 0, world_size = 1;
    std::string prefix;  ///< of the keys of this attempt
    std::chrono::milliseconds interval{1000};
  };
  /// `store` is this object's own connection.
  Presence(std::shared_ptr<KeyStore> store, Options options);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  /// `phase` must outlive the object: a literal.
  void enter(const char* phase, std::int64_t iteration, bool is_patient);
  void progress();
  /// Lets the others know at once what else they would hear with the next beat.
  void tell();
  /// While an object lives, this rank waits for others.
  class Waiting {
   public:
    explicit Waiting(Presence& presence) : presence_(presence) { ++presence_.waiting_; }
    ~Waiting() { --presence_.waiting_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Presence& presence_;
  };

  void report_failure(const std::string& text);
  std::optional<std::string> failure();
  /// Called once when any rank has failed, to wake who waits: from the thread of this object, or,
  /// if one has failed already, here.
  void on_failure(std::function<void()> callback);

  /// Every rank's state as last told; nothing of ranks that never did.
  std::vector<std::optional<RankState>> states();
  /// Who keeps the others waiting, and why: the failure that was reported, else the ranks whose
  /// process does not live (takes a few intervals to find out), else those that live and do not
  /// wait for others. `waited_s` is how long for. Does not throw.
  std::string diagnose(double waited_s);
  /// False once the store did not answer diagnose().
  bool reaches_store() const { return reaches_store_; }

 private:
  void run();

  std::shared_ptr<KeyStore> store_;
  Options options_;
  std::string host_;
  std::atomic<const char*> phase_{"starting"};
  std::atomic<std::int64_t> iteration_{-1}, progress_{0}, waiting_{0};
  std::atomic<bool> is_patient_{false}, reaches_store_{true};
  std::mutex telling_;
  std::int64_t beat_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, failed_ = false;
  std::vector<std::function<void()>> callbacks_;
  std::thread thread_;
};

}  // namespace detforge
