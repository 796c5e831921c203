#include "detforge/train/model_state.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {

NamedTensors model_state(const torch::nn::Module& model) {
  NamedTensors state;
  for (const auto& item : model.named_parameters()) {
    state.emplace_back(item.key(), item.value().detach());
  }
  for (const auto& item : model.named_buffers()) {
    state.emplace_back(item.key(), item.value().detach());
  }
  return state;
}

Value to_value(const NamedTensors& tensors) {
  Value dict = Value::dict();
  for (const auto& [name, tensor] : tensors) {
    dict.set(name, tensor);
  }
  return dict;
}

Value model_state_value(const torch::nn::Module& model) {
  return to_value(model_state(model));
}

NamedTensors to_named_tensors(const Item& dict) {
  NamedTensors tensors;
  for (const Value::Entry& entry : dict.dict()) {
    const std::string& name = Item(entry.key, dict.path() + " key").string();
    tensors.emplace_back(name,
                         Item(entry.value, fmt::format("{}['{}']", dict.path(), name)).tensor());
  }
  return tensors;
}

void copy_by_name(const NamedTensors& from, const NamedTensors& to) {
  const torch::NoGradGuard no_grad;
  const std::map<std::string, Tensor> by_name(from.begin(), from.end());
  const char* fix = "resume with the configuration of the saved run, or start anew with --init";
  for (const auto& [name, tensor] : to) {
    const auto found = by_name.find(name);
    DETFORGE_CHECK(found != by_name.end(), "the saved model has no " + name, fix);
    DETFORGE_CHECK(found->second.sizes() == tensor.sizes(),
                   fmt::format("{} is {} in the saved model and {} in this one", name,
                               c10::str(found->second.sizes()), c10::str(tensor.sizes())),
                   fix);
  }
  DETFORGE_CHECK(
      to.size() == by_name.size(),
      fmt::format("the saved model has {} tensors, this one {}", by_name.size(), to.size()), fix);
  for (const auto& [name, tensor] : to) {
    tensor.copy_(by_name.at(name));
  }
}

void load_model_state(torch::nn::Module& model, const Item& dict) {
  copy_by_name(to_named_tensors(dict), model_state(model));
}

bool is_finite(const Tensor& tensor) {
  // A sum is not finite if an element is not (and, in double, never overflows from finite f32
  // elements).
  return std::isfinite(tensor.sum(at::kDouble).item<double>());
}

std::string first_nonfinite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_floating_point() && !is_finite(tensor)) {
      return name;
    }
  }
  return {};
}

std::int64_t total_bytes(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
  }
  return bytes;
}

}  // namespace detforge
