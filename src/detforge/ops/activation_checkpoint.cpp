#include "detforge/ops/activation_checkpoint.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/work_meter.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool recomputing = false;

/// Recomputation for the lifetime of this object.
class Recomputation {
 public:
  Recomputation() : before_(std::exchange(recomputing, true)) {}
  ~Recomputation() { recomputing = before_; }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  bool before_;
};

Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

/// A generator state for the lifetime of this object.
class ScopedGeneratorState {
 public:
  explicit ScopedGeneratorState(const Tensor& state) : before_(generator_state()) {
    set_generator_state(state);
  }
  ~ScopedGeneratorState() { set_generator_state(before_); }
  ScopedGeneratorState(const ScopedGeneratorState&) = delete;
  ScopedGeneratorState& operator=(const ScopedGeneratorState&) = delete;

 private:
  Tensor before_;
};

/// What backward needs beside tensors that autograd watches.
struct Part : torch::CustomClassHolder {
  std::function<Tensor(const Tensor&)> run;
  Tensor generator;
};

/// tensors: the input, then the parameters. (A TensorList: autograd does not look into a vector.)
class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  static Tensor forward(AutogradContext* ctx,
                        const c10::intrusive_ptr<Part>& part,
                        at::TensorList tensors) {
    part->generator = generator_state();
    ctx->save_for_backward(tensors.vec());
    ctx->saved_data["part"] = c10::IValue::make_capsule(part);
    ctx->saved_data["input_needs"] = tensors[0].requires_grad();
    return part->run(tensors[0]);  // without gradients: nothing in it is kept
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    RECORD_FUNCTION("detforge::recompute activations", {});
    DETFORGE_CHECK(!at::GradMode::is_enabled(),
                   "checkpointed activations have no second derivative",
                   "set MODEL.BACKBONE.CHECKPOINT false");
    const auto part = c10::static_intrusive_pointer_cast<Part>(ctx->saved_data["part"].toCapsule());
    variable_list tensors = ctx->get_saved_variables();
    tensors[0] = tensors[0].detach().set_requires_grad(ctx->saved_data["input_needs"].toBool());
    const at::AutoGradMode with_gradients(true);
    const Recomputation now;
    Tensor output;
    {
      const ScopedGeneratorState as_before(part->generator);
      output = part->run(tensors[0]);
    }
    variable_list wanted;
    std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(wanted),
                 [](const Tensor& tensor) { return tensor.requires_grad(); });
    const variable_list found =
        torch::autograd::grad({output}, wanted, {grads[0]}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    variable_list result(1 + tensors.size());  // the first is the part's
    auto next = found.begin();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].requires_grad()) {
        result[1 + i] = *next++;
      }
    }
    return result;
  }
};

}  // namespace

bool is_recomputing() {
  return recomputing;
}

Tensor checkpoint_activations(std::function<Tensor(const Tensor&)> part,
                              const Tensor& input,
                              const std::vector<Tensor>& parameters) {
  variable_list tensors{input};
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  const bool trains = std::any_of(tensors.begin(), tensors.end(),
                                  [](const Tensor& tensor) { return tensor.requires_grad(); });
  if (!trains || !at::GradMode::is_enabled()) {
    return part(input);
  }
  auto kept = c10::make_intrusive<Part>();
  kept->run = std::move(part);
  const Tensor output = CheckpointFunction::apply(kept, at::TensorList(tensors));
  WorkMeter::add_kept(static_cast<double>(output.nbytes()));  // as of any layer: its output
  return output;
}

}  // namespace detforge
