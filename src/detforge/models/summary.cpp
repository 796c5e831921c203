#include "detforge/models/summary.h"

#include <torch/types.h>

namespace detforge {
namespace {

ModuleSummary summarize(const std::string& name, const torch::nn::Module& module) {
  ModuleSummary summary{.name = name};
  for (const Tensor& parameter : module.parameters()) {
    summary.parameters += parameter.numel();
    summary.trainable += parameter.requires_grad() ? parameter.numel() : 0;
  }
  return summary;
}

}  // namespace

std::vector<ModuleSummary> summarize_parameters(const torch::nn::Module& model) {
  std::vector<ModuleSummary> summaries;
  for (const auto& child : model.named_children()) {
    summaries.push_back(summarize(child.key(), *child.value()));
  }
  summaries.push_back(summarize("", model));
  return summaries;
}

}  // namespace detforge
