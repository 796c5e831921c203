#include "detforge/ops/op_profile.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <ATen/record_function.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"

namespace detforge {
namespace {

/// What the callbacks, which are plain functions, write to.
struct Sink {
  std::mutex mutex;
  std::unordered_map<std::string, OpTime> ops;
  bool in_use = false;
};

Sink& sink() {
  static Sink instance;
  return instance;
}

/// An op that has begun. They nest: each thread has a chain from the innermost outwards.
struct Frame : at::ObserverContext {
  double start_s = now_s();
  double inside_s = 0;  ///< time of the ops that it called
  Frame* caller = nullptr;
};

Frame*& innermost() {
  thread_local Frame* frame = nullptr;
  return frame;
}

/// Names as a reader knows them: the engine's part in every node is one op, and
/// "torch::autograd::CppNode<detforge::(anonymous namespace)::Name>" is "Name backward".
std::string readable(const std::string& name) {
  if (name.starts_with("autograd::engine::evaluate_function")) {
    return "autograd engine";
  }
  const std::string node = "CppNode<";
  const std::size_t begin = name.find(node);
  if (begin == std::string::npos || !name.ends_with('>')) {
    return name;
  }
  const std::string type = name.substr(begin + node.size(), name.size() - begin - node.size() - 1);
  const std::size_t scope = type.rfind("::");
  return (scope == std::string::npos ? type : type.substr(scope + 2)) + " backward";
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) {
  auto frame = std::make_unique<Frame>();
  frame->caller = innermost();
  innermost() = frame.get();
  return frame;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  const Frame& frame = *static_cast<Frame*>(context);
  const double elapsed_s = now_s() - frame.start_s;
  innermost() = frame.caller;
  if (frame.caller != nullptr) {
    frame.caller->inside_s += elapsed_s;
  }
  const std::string name = readable(function.name());
  const std::lock_guard lock(sink().mutex);
  OpTime& op = sink().ops[name];
  op.name = name;
  op.calls += 1;
  op.self_s += elapsed_s - frame.inside_s;
}

}  // namespace

OpProfile::OpProfile() {
  {
    const std::lock_guard lock(sink().mutex);
    DETFORGE_CHECK(!sink().in_use, "an OpProfile is already running", "end it first");
    sink().in_use = true;
    sink().ops.clear();
  }
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&on_start, &on_end)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

OpProfile::~OpProfile() {
  at::removeCallback(callback_);
  const std::lock_guard lock(sink().mutex);
  sink().in_use = false;
}

std::vector<OpTime> OpProfile::by_self_time() const {
  std::vector<OpTime> ops;
  {
    const std::lock_guard lock(sink().mutex);
    for (const auto& [name, op] : sink().ops) {
      ops.push_back(op);
    }
  }
  std::sort(ops.begin(), ops.end(), [](const OpTime& a, const OpTime& b) {
    return a.self_s != b.self_s ? a.self_s > b.self_s : a.name < b.name;
  });
  return ops;
}

}  // namespace detforge
