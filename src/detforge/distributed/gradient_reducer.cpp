#include "detforge/distributed/gradient_reducer.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <omp.h>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "detforge/core/timer.h"

namespace detforge {
namespace {

using torch::autograd::variable_list;

/// Calls back when a parameter's gradient is complete.
class AfterGradient final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterGradient(std::function<void()> call) : call_(std::move(call)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

class GradientReducer::State : public std::enable_shared_from_this<State> {
 public:
  State(std::vector<std::pair<std::string, Tensor>> parameters,
        Communicator& communicator,
        GradientReducerOptions options)
      : options_(options),
        communicator_(communicator),
        channel_(communicator.channel("gradients")) {
    for (auto& [name, tensor] : parameters) {
      slots_.push_back({.parameter = tensor});
    }
    std::vector<std::size_t> order(slots_.size());
    std::iota(order.rbegin(), order.rend(), 0);  // backward passes go from the end to the front
    make_buckets(order);
    thread_ = std::thread([this] { work(); });
  }
  ~State() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Not in the constructor: there is no shared pointer to be weak about yet.
  void attach_hooks() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].accumulator = torch::autograd::impl::grad_accumulator(slots_[i].parameter);
      slots_[i].accumulator->add_post_hook(
          std::make_unique<AfterGradient>([weak = weak_from_this(), i] {
            if (const auto state = weak.lock()) {
              state->after_gradient(i);
            }
          }));
    }
  }

  void start(double loss_scale) {
    loss_scale_ = loss_scale;
    arrivals_.clear();
    for (Bucket& bucket : buckets_) {
      bucket.missing = bucket.slots.size();
    }
    for (Slot& slot : slots_) {
      slot.has_come = false;
    }
    next_ = 0;
    done_ = 0;
    times_ = {};
    is_active_ = true;
  }

  ReductionTimes finish() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].has_come) {
        take(i);
      }
    }
    is_active_ = false;
    const Timer timer;
    {
      std::unique_lock lock(mutex_);
      done_one_.wait(lock, [this] { return done_ == buckets_.size() || error_; });
      if (error_) {
        std::rethrow_exception(error_);
      }
    }
    times_.exposed_s = timer.elapsed_s();
    for (Slot& slot : slots_) {
      give_back(slot);
    }
    if (!has_learnt_order_) {
      learn_order();
    }
    return times_;
  }

  bool is_busy() const { return is_active_; }
  Communicator& channel() { return *channel_; }

 private:
  struct Slot {
    Tensor parameter;
    std::shared_ptr<torch::autograd::Node> accumulator = {};  ///< kept alive: hooks hang on it
    std::size_t bucket = 0;
    Tensor place = {};  ///< the part of the bucket, in the parameter's shape
    bool has_come = false;
  };
  struct Bucket {
    std::vector<std::size_t> slots;
    Tensor flat;
    std::size_t missing = 0;
    std::optional<CompressedSum> compressed = {};
    std::optional<PowerSgdSum> power_sgd = {};
  };

  /// bf16 is not known to Gloo, and only f32 is compressed or summed in a tree.
  at::ScalarType bucket_type(const Tensor& parameter) const {
    const bool as_it_is = options_.compression == Compression::kNone &&
                          !options_.is_deterministic && parameter.scalar_type() == at::kHalf;
    return as_it_is ? at::kHalf : at::kFloat;
  }

  void make_buckets(const std::vector<std::size_t>& order) {
    buckets_.clear();
    std::int64_t bytes = 0;
    for (const std::size_t i : order) {
      const at::ScalarType type = bucket_type(slots_[i].parameter);
      const bool fits = !buckets_.empty() && bytes < options_.bucket_bytes &&
                        bucket_type(slots_[buckets_.back().slots.front()].parameter) == type;
      if (!fits) {
        buckets_.emplace_back();
        bytes = 0;
      }
      slots_[i].bucket = buckets_.size() - 1;
      buckets_.back().slots.push_back(i);
      bytes += slots_[i].parameter.numel() * static_cast<std::int64_t>(c10::elementSize(type));
    }
    for (Bucket& bucket : buckets_) {
      std::int64_t size = 0;
      for (const std::size_t i : bucket.slots) {
        size += slots_[i].parameter.numel();
      }
      bucket.flat = torch::zeros({size}, bucket_type(slots_[bucket.slots.front()].parameter));
      size = 0;
      for (const std::size_t i : bucket.slots) {
        const std::int64_t numel = slots_[i].parameter.numel();
        slots_[i].place = bucket.flat.narrow(0, size, numel).view(slots_[i].parameter.sizes());
        size += numel;
      }
      if (options_.compression == Compression::kPowerSgd) {
        std::vector<std::vector<std::int64_t>> shapes;
        for (const std::size_t i : bucket.slots) {
          shapes.push_back(slots_[i].parameter.sizes().vec());
        }
        bucket.power_sgd.emplace(shapes, options_.power_sgd_rank);
      } else if (options_.compression != Compression::kNone) {
        bucket.compressed.emplace(options_.compression, size);
      }
    }
  }

  void after_gradient(std::size_t i) {
    if (is_active_ && !slots_[i].has_come) {
      const torch::NoGradGuard no_grad;
      take(i);
    }
  }

  /// Copies a gradient, or zeros, into its bucket; hands over the buckets that are full.
  void take(std::size_t i) {
    Slot& slot = slots_[i];
    slot.has_come = true;
    arrivals_.push_back(static_cast<std::int64_t>(i));
    Tensor& gradient = slot.parameter.mutable_grad();
    if (gradient.defined()) {
      slot.place.copy_(gradient);
    } else {
      slot.place.zero_();
    }
    // From here on the bucket holds it; its own memory goes back to the backward pass.
    gradient = Tensor();
    --buckets_[slot.bucket].missing;
    std::size_t ready = 0;
    while (next_ < buckets_.size() && buckets_[next_].missing == 0) {
      ++next_;
      ++ready;
    }
    if (ready > 0) {
      const std::lock_guard lock(mutex_);
      for (std::size_t bucket = next_ - ready; bucket < next_; ++bucket) {
        queue_.push_back(bucket);
      }
      wake_.notify_one();
    }
  }

  static void give_back(Slot& slot) {
    slot.parameter.mutable_grad() = slot.place.to(slot.parameter.scalar_type());
  }

  /// The order of rank 0's first backward pass becomes everybody's.
  void learn_order() {
    has_learnt_order_ = true;
    Tensor order = torch::tensor(arrivals_, torch::kLong);
    communicator_.broadcast_(order, 0);
    const auto* values = order.data_ptr<std::int64_t>();
    // The gradients of this step keep the memory of the buckets that go.
    make_buckets({values, values + order.numel()});
  }

  void work() {
    omp_set_num_threads(1);  // of this thread only: the others belong to the backward pass
    const torch::NoGradGuard no_grad;
    for (;;) {
      std::size_t bucket = 0;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_) {
          return;
        }
        bucket = queue_.front();
        queue_.pop_front();
      }
      try {
        reduce(buckets_[bucket]);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
        done_one_.notify_all();
        return;
      }
      const std::lock_guard lock(mutex_);
      ++done_;
      done_one_.notify_all();
    }
  }

  void reduce(Bucket& bucket) {
    const Timer timer;
    std::int64_t bytes = static_cast<std::int64_t>(bucket.flat.nbytes());
    const bool may_compress = has_learnt_order_;  // feedback belongs to buckets that stay
    if (bucket.compressed && may_compress) {
      bucket.compressed->all_reduce_(*channel_, bucket.flat, loss_scale_);
      bytes /= 2;
    } else if (bucket.power_sgd && may_compress) {
      bytes = bucket.power_sgd->all_reduce_(*channel_, bucket.flat, loss_scale_);
    } else if (options_.is_deterministic) {
      tree_all_reduce_(*channel_, bucket.flat);
    } else {
      channel_->all_reduce_sum_(bucket.flat);
    }
    times_.communication_s += timer.elapsed_s();
    // Each rank sends (W - 1) / W of a tensor to have it summed, and as much to hand the sums out.
    const std::int64_t ranks = channel_->world_size();
    times_.bytes += 2 * (ranks - 1) * bytes / ranks;
  }

  GradientReducerOptions options_;
  Communicator& communicator_;
  std::unique_ptr<Communicator> channel_;
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  std::vector<std::int64_t> arrivals_;  ///< slots, in the order of this pass
  bool has_learnt_order_ = false, is_active_ = false;
  double loss_scale_ = 1;
  std::size_t next_ = 0;  ///< bucket to hand over
  std::mutex mutex_;
  std::condition_variable wake_, done_one_;
  std::deque<std::size_t> queue_;
  std::size_t done_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  ReductionTimes times_;  ///< written by the thread, read when it is done
  std::thread thread_;
};

GradientReducer::GradientReducer(std::vector<std::pair<std::string, Tensor>> parameters,
                                 Communicator& communicator,
                                 GradientReducerOptions options)
    : state_(std::make_shared<State>(std::move(parameters), communicator, options)) {
  state_->attach_hooks();
}

GradientReducer::~GradientReducer() {
  if (state_->is_busy()) {
    state_->channel().give_up("the step was not finished");  // wakes a thread that waits
  }
}

void GradientReducer::start(double loss_scale) {
  state_->start(loss_scale);
}

ReductionTimes GradientReducer::finish() {
  return state_->finish();
}

}  // namespace detforge
