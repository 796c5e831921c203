#include "detforge/distributed/gloo_waits.h"

#include "detforge/distributed/communicator.h"

namespace detforge {
namespace {

[[noreturn]] void throw_ended() {
  throw CommunicationError("a rank failed while this one waited", "see the output of that rank");
}

}  // namespace

void GlooWaits::open(Gloo* group) {
  const std::lock_guard lock(mutex_);
  group_ = group;
}

void GlooWaits::end() {
  const std::lock_guard lock(mutex_);
  if (group_ != nullptr) {
    group_->close();
  }
  has_ended_ = true;
  if (message_) {
    message_->abort();
  }
  wake_.notify_all();
}

bool GlooWaits::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void GlooWaits::wait_for(const c10::intrusive_ptr<c10d::Work>& work) {
  const auto future = work->getFuture();
  future->addCallback([self = shared_from_this()](auto&) {
    const std::lock_guard lock(self->mutex_);
    self->wake_.notify_all();
  });
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return has_ended_ || future->completed(); });
  }
  if (!future->completed()) {
    throw_ended();
  }
  work->wait();
}

void GlooWaits::wait_for_message(const c10::intrusive_ptr<c10d::Work>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) {
      throw_ended();
    }
    message_ = work;
  }
  bool has_come = false;
  try {
    has_come = work->wait();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    message_.reset();
    throw;
  }
  const std::lock_guard lock(mutex_);
  message_.reset();
  if (!has_come) {
    throw_ended();
  }
}

}  // namespace detforge
