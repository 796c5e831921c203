#pragma once

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO 1
#endif

#include <condition_variable>
#include <memory>
#include <mutex>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace detforge {

/// c10d's group, which can also be closed while another thread waits in it.
class Gloo final : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;
  void close() {
    for (const auto& context : contexts_) {
      try {
        context->closeConnections();
      } catch (const std::exception&) {
        // A peer that is gone already is as good as closed.
      }
    }
  }
};

/// Waits for a group's work, or for the failure of a rank: Gloo wakes nobody in its own process
/// when connections are closed, and its threads stay in their calls until their deadline.
class GlooWaits : public std::enable_shared_from_this<GlooWaits> {
 public:
  /// Which group end() closes; null before it goes.
  void open(Gloo* group);
  /// From another thread. From here on no byte arrives, and who waits, now or later, throws.
  void end();
  bool has_ended() const;

  /// Of a collective. Throws its error, or CommunicationError after end().
  void wait_for(const c10::intrusive_ptr<c10d::Work>& work);
  /// Of send() and recv(), which have no future but can be aborted.
  void wait_for_message(const c10::intrusive_ptr<c10d::Work>& work);

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Gloo* group_ = nullptr;
  bool has_ended_ = false;
  c10::intrusive_ptr<c10d::Work> message_;
};

}  // namespace detforge
