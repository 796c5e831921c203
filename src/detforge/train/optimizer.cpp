#include "detforge/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <unordered_set>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/map_type.h"
#include "detforge/train/chunks.h"

namespace detforge {
namespace {

/// Sum over [begin, end) of |x|^p, or the largest |x| for p = infinity. A NaN stays a NaN.
double power_sum(const float* values, std::int64_t begin, std::int64_t end, double p) {
  double sum = 0;
  if (p == 2.0) {
    double lanes[8] = {};  // eight independent sums let the compiler use SIMD
    std::int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (int lane = 0; lane < 8; ++lane) {
        const double value = values[i + lane];
        lanes[lane] += value * value;
      }
    }
    for (; i < end; ++i) {
      lanes[0] += static_cast<double>(values[i]) * values[i];
    }
    for (const double lane : lanes) {
      sum += lane;
    }
    return sum;
  }
  for (std::int64_t i = begin; i < end; ++i) {
    const double value = std::abs(static_cast<double>(values[i]));
    if (std::isinf(p)) {
      sum = std::isnan(value) ? value : (value > sum ? value : sum);
    } else {
      sum += std::pow(value, p);
    }
    if (std::isnan(sum)) {
      return sum;
    }
  }
  return sum;
}

double combine(double a, double b, double p) {
  if (!std::isinf(p)) {
    return a + b;
  }
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

constexpr std::int64_t kBlock = 2048;  // values whose f32 copies stay in the L1 cache

/// Calls work(floats, first, count) for the chunk's values, block by block where they are not f32.
template <typename Work>
void read_floats(const Tensor& tensor, const Chunk& chunk, const Work& work) {
  if (tensor.scalar_type() == at::kFloat) {
    work(tensor.data_ptr<float>() + chunk.begin, chunk.begin, chunk.end - chunk.begin);
    return;
  }
  float block[kBlock];
  for (std::int64_t i = chunk.begin; i < chunk.end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, chunk.end - i);
    work(read_values(tensor, i, count, block), i, count);
  }
}

/// sum |x|^p (or max |x|) of each tensor.
std::vector<double> power_sums(const NamedTensors& tensors, double p) {
  const std::vector<Chunk> chunks = make_chunks(tensors);
  std::vector<double> partial(chunks.size());
  for_each_chunk(chunks, [&](std::size_t index, const Chunk& chunk) {
    read_floats(tensors[chunk.tensor].second, chunk,
                [&](const float* values, std::int64_t, std::int64_t count) {
                  partial[index] = combine(partial[index], power_sum(values, 0, count, p), p);
                });
  });
  std::vector<double> sums(tensors.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    double& sum = sums[chunks[i].tensor];
    sum = combine(sum, partial[i], p);
  }
  return sums;
}

double root(double power_sum, double p) {
  return std::isinf(p) ? power_sum
                       : (p == 2.0 ? std::sqrt(power_sum) : std::pow(power_sum, 1.0 / p));
}

/// torch.nn.utils.clip_grad_norm_'s factor.
double clip_scale(double norm, double limit) {
  return std::min(limit / (norm + 1e-6), 1.0);
}

struct Update {
  float lr, momentum, weight_decay, gradient_scale, gradient_limit;
  bool nesterov;
};

void update(float* __restrict p,
            float* __restrict v,
            const float* __restrict g,
            std::int64_t count,
            const Update& u) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float clipped = std::clamp(g[i] * u.gradient_scale, -u.gradient_limit, u.gradient_limit);
    const float gradient = clipped + u.weight_decay * p[i];
    v[i] = u.momentum * v[i] + gradient;
    p[i] -= u.lr * (u.nesterov ? gradient + u.momentum * v[i] : v[i]);
  }
}

}  // namespace

bool is_norm_parameter(const std::string& name) {
  static const std::regex pattern(R"((^|.*\.)(norm|bn)[0-9]*\.(weight|bias))");
  return std::regex_match(name, pattern);
}

Sgd::Sgd(const torch::nn::Module& model, SgdOptions options) : options_(options) {
  DETFORGE_CHECK(options_.clip.norm_type >= 1,
                 "gradient clipping by the " + std::to_string(options_.clip.norm_type) + "-norm",
                 "set SOLVER.CLIP_GRADIENTS.NORM_TYPE to 1 or more");
  DETFORGE_CHECK(!options_.nesterov || options_.momentum > 0, "Nesterov's method without momentum",
                 "set SOLVER.MOMENTUM above 0 or SOLVER.NESTEROV to False");
  std::unordered_set<const void*> seen;
  for (const auto& item : model.named_parameters()) {
    const Tensor& parameter = item.value();
    if (!parameter.requires_grad() || !seen.insert(parameter.unsafeGetTensorImpl()).second) {
      continue;
    }
    DETFORGE_CHECK(parameter.device().is_cpu() && parameter.scalar_type() == at::kFloat &&
                       parameter.is_non_overlapping_and_dense(),
                   "parameter " + item.key() + " is not a dense f32 tensor on the CPU",
                   "keep the model in FP32 on the CPU");
    const bool is_bias = item.key() == "bias" || item.key().ends_with(".bias");
    double weight_decay =
        is_norm_parameter(item.key()) ? options_.weight_decay_norm : options_.weight_decay;
    if (is_bias && options_.weight_decay_bias >= 0) {
      weight_decay = options_.weight_decay_bias;
    }
    slots_.push_back({.name = item.key(),
                      .parameter = parameter,
                      .weight = {},
                      .momentum = {},
                      .weight_decay = weight_decay,
                      .lr_factor = is_bias ? options_.bias_lr_factor : 1.0});
  }
  DETFORGE_CHECK(!slots_.empty(), "the model has no trainable parameter",
                 "lower MODEL.BACKBONE.FREEZE_AT");
  make_flat();
}

void Sgd::make_flat() {
  constexpr std::int64_t kLine = 16;  // floats: tensors begin at cache lines
  std::int64_t size = 0;
  for (const Slot& slot : slots_) {
    size += (slot.parameter.numel() + kLine - 1) / kLine * kLine;
  }
  const Tensor weights = at::zeros({size}, at::kFloat), momenta = at::zeros({size}, at::kFloat);
  std::int64_t first = 0;
  for (Slot& slot : slots_) {
    const Tensor& parameter = slot.parameter;
    slot.weight = weights.as_strided(parameter.sizes(), parameter.strides(), first);
    slot.momentum = momenta.as_strided(parameter.sizes(), parameter.strides(), first);
    slot.weight.copy_(parameter.detach());
    slot.parameter.set_data(slot.weight);
    first += (parameter.numel() + kLine - 1) / kLine * kLine;
  }
}

void Sgd::keep_in(at::ScalarType type,
                  bool with_masters,
                  const std::function<bool(const std::string&)>& choose) {
  for (Slot& slot : slots_) {
    if (choose(slot.name)) {
      slot.parameter.set_data(to_map_type(slot.weight, type));
      slot.has_master = with_masters;
      slot.weight = with_masters ? slot.weight : Tensor();
    } else if (!with_masters) {  // leaves the buffer, most of which is of no use any more
      slot.weight = slot.weight.clone();
      slot.parameter.set_data(slot.weight);
    }
  }
}

NamedTensors Sgd::masters() const {
  NamedTensors result;
  for (const Slot& slot : slots_) {
    if (slot.has_master) {
      result.emplace_back(slot.name, slot.weight);
    }
  }
  return result;
}

void Sgd::publish_masters() {
  const torch::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    if (slot.has_master) {
      slot.parameter.copy_(slot.weight);
    }
  }
}

void Sgd::zero_grad() {
  for (Slot& slot : slots_) {
    slot.parameter.mutable_grad() = Tensor();
  }
}

/// Gradients with the memory layout of their parameters.
NamedTensors Sgd::gradients() const {
  NamedTensors result;
  for (const Slot& slot : slots_) {
    const Tensor& gradient = slot.parameter.grad();
    DETFORGE_CHECK(gradient.defined(), "parameter " + slot.name + " got no gradient",
                   "this is a bug in the model: every loss must reach every trainable parameter");
    const bool same_layout = gradient.strides() == slot.parameter.strides();
    result.emplace_back(slot.name, same_layout
                                       ? gradient
                                       : at::empty_like(slot.parameter.detach()).copy_(gradient));
  }
  return result;
}

GradientNorm Sgd::gradient_norm(double loss_scale) const {
  GradientNorm norm{.total = 0, .squares = power_sums(gradients(), 2.0), .loss_scale = loss_scale};
  for (double& part : norm.squares) {
    part /= loss_scale * loss_scale;
    norm.total += part;
  }
  norm.total = std::sqrt(norm.total);
  return norm;
}

/// One factor per parameter.
std::vector<double> Sgd::clip_scales(const NamedTensors& gradients,
                                     const GradientNorm& norm) const {
  const GradientClipOptions& clip = options_.clip;
  std::vector<double> scales(gradients.size(), 1.0);
  if (clip.type != GradientClipOptions::Type::kNorm &&
      clip.type != GradientClipOptions::Type::kFullModel) {
    return scales;
  }
  std::vector<double> sums = norm.squares;
  if (clip.norm_type != 2.0) {
    sums = power_sums(gradients, clip.norm_type);
    for (double& sum : sums) {
      sum /=
          std::isinf(clip.norm_type) ? norm.loss_scale : std::pow(norm.loss_scale, clip.norm_type);
    }
  }
  if (clip.type == GradientClipOptions::Type::kFullModel) {
    double total = 0;
    for (const double sum : sums) {
      total = combine(total, sum, clip.norm_type);
    }
    std::fill(scales.begin(), scales.end(), clip_scale(root(total, clip.norm_type), clip.value));
    return scales;
  }
  std::transform(sums.begin(), sums.end(), scales.begin(),
                 [&](double sum) { return clip_scale(root(sum, clip.norm_type), clip.value); });
  return scales;
}

void Sgd::step(double lr, const GradientNorm& norm) {
  const NamedTensors grads = gradients();
  DETFORGE_CHECK(norm.squares.size() == grads.size(),
                 "the norm of other gradients was given to the optimizer",
                 "give it what its gradient_norm() returned");
  const std::vector<double> scales = clip_scales(grads, norm);
  const bool by_value = options_.clip.type == GradientClipOptions::Type::kValue;
  const double limit = by_value ? options_.clip.value : std::numeric_limits<double>::infinity();
  for_each_chunk(make_chunks(grads), [&](std::size_t, const Chunk& chunk) {
    const Slot& slot = slots_[chunk.tensor];
    const Update how{.lr = static_cast<float>(lr * slot.lr_factor),
                     .momentum = static_cast<float>(options_.momentum),
                     .weight_decay = static_cast<float>(slot.weight_decay),
                     .gradient_scale = static_cast<float>(scales[chunk.tensor] / norm.loss_scale),
                     .gradient_limit = static_cast<float>(limit),
                     .nesterov = options_.nesterov};
    float block[kBlock];
    read_floats(grads[chunk.tensor].second, chunk,
                [&](const float* gradient, std::int64_t first, std::int64_t count) {
                  float* weight = slot.weight.defined()
                                      ? slot.weight.data_ptr<float>() + first
                                      : read_values(slot.parameter, first, count, block);
                  update(weight, slot.momentum.data_ptr<float>() + first, gradient, count, how);
                  write_values(weight, slot.parameter, first, count);
                });
  });
}

NamedTensors Sgd::parameters() const {
  NamedTensors result;
  for (const Slot& slot : slots_) {
    result.emplace_back(slot.name, slot.parameter);
  }
  return result;
}

NamedTensors Sgd::state() const {
  NamedTensors result;
  for (const Slot& slot : slots_) {
    result.emplace_back(slot.name, slot.momentum);
  }
  return result;
}

void Sgd::load_state(const NamedTensors& state) {
  const std::map<std::string, Tensor> by_name(state.begin(), state.end());
  DETFORGE_CHECK(by_name.size() == slots_.size(),
                 "the saved optimizer has " + std::to_string(by_name.size()) +
                     " parameters, this model trains " + std::to_string(slots_.size()),
                 "resume with the configuration of the saved run, or start anew with --init");
  for (Slot& slot : slots_) {
    const auto found = by_name.find(slot.name);
    DETFORGE_CHECK(found != by_name.end() && found->second.sizes() == slot.momentum.sizes(),
                   "the saved optimizer does not fit parameter " + slot.name,
                   "resume with the configuration of the saved run, or start anew with --init");
    slot.momentum.copy_(found->second);
  }
}

}  // namespace detforge
