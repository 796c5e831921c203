#include "detforge/ops/map_type.h"

#include <algorithm>
#include <string>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/layout.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kGrain = 32768;  // values that are worth a thread

bool is_map_type(at::ScalarType type) {
  return type == at::kFloat || is_half_type(type);
}

/// One of the two types is f32.
void convert(const Tensor& from, const Tensor& to) {
  const cpu::ConstMap source = const_map(from);
  const cpu::Map target = map_of(to);
  at::parallel_for(0, from.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (target.storage() == cpu::Storage::kFloat) {
      cpu::conv_kernels()->load_values(source + begin, end - begin, target.as<float>() + begin);
    } else {
      cpu::conv_kernels()->store_values(source.as<float>() + begin, end - begin, target + begin);
    }
  });
}

Tensor converted(const Tensor& tensor, at::ScalarType type) {
  const bool one_is_f32 = (tensor.scalar_type() == at::kFloat) != (type == at::kFloat);
  if (!one_is_f32 || !is_map_type(type) || !has_own_conversions(tensor)) {
    return tensor.to(type);
  }
  Tensor result = at::empty_like(tensor, tensor.options().dtype(type));
  convert(tensor, result);
  return result;
}

class ConvertFunction : public torch::autograd::Function<ConvertFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& tensor, std::int64_t type) {
    ctx->saved_data["type"] = static_cast<std::int64_t>(tensor.scalar_type());
    return converted(tensor, static_cast<at::ScalarType>(type));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    return {converted(grads[0], type), Tensor()};
  }
};

/// Some values in the order of memory, without autograd.
Tensor values_at(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  return tensor.detach().as_strided({count}, {1}, tensor.storage_offset() + first);
}

cpu::Storage storage_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return cpu::Storage::kFloat;
    case at::kHalf:
      return cpu::Storage::kHalf;
    case at::kBFloat16:
      return cpu::Storage::kBFloat16;
    default:
      throw Error(std::string("a map has the type ") + c10::toString(type),
                  "convert it to f32, f16 or bf16 first");
  }
}

}  // namespace

bool is_half_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

const char* map_type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    default:
      return c10::toString(type);
  }
}

bool has_own_conversions(const Tensor& tensor) {
  return tensor.is_cpu() && is_map_type(tensor.scalar_type()) &&
         tensor.is_non_overlapping_and_dense() && cpu::conv_kernels() != nullptr;
}

bool is_own_map(const Tensor& map) {
  return is_channels_last(map) && map.is_cpu() &&
         (map.scalar_type() == at::kFloat ||
          (is_half_type(map.scalar_type()) && cpu::conv_kernels() != nullptr));
}

Tensor to_map_type(const Tensor& tensor, at::ScalarType type) {
  if (tensor.scalar_type() == type) {
    return tensor;
  }
  return tensor.requires_grad() && at::GradMode::is_enabled()
             ? ConvertFunction::apply(tensor, static_cast<std::int64_t>(type))
             : converted(tensor, type);
}

Tensor widen(const Tensor& tensor) {
  return tensor.defined() && is_half_type(tensor.scalar_type()) ? to_map_type(tensor, at::kFloat)
                                                                : tensor;
}

float* read_values(const Tensor& tensor, std::int64_t first, std::int64_t count, float* block) {
  if (tensor.scalar_type() == at::kFloat) {
    return tensor.data_ptr<float>() + first;
  }
  if (cpu::conv_kernels() != nullptr) {
    cpu::conv_kernels()->load_values(const_map(tensor) + first, count, block);
  } else {
    std::copy_n(values_at(tensor, first, count).to(at::kFloat).data_ptr<float>(), count, block);
  }
  return block;
}

void write_values(const float* values,
                  const Tensor& tensor,
                  std::int64_t first,
                  std::int64_t count) {
  if (tensor.scalar_type() == at::kFloat) {
    return;
  }
  if (cpu::conv_kernels() != nullptr) {
    cpu::conv_kernels()->store_values(values, count, map_of(tensor) + first);
  } else {
    values_at(tensor, first, count)
        .copy_(at::from_blob(const_cast<float*>(values), {count}, at::kFloat));
  }
}

cpu::ConstMap const_map(const Tensor& tensor) {
  return tensor.defined() ? cpu::ConstMap(tensor.data_ptr(), storage_of(tensor.scalar_type()))
                          : cpu::ConstMap();
}

cpu::Map map_of(const Tensor& tensor) {
  return tensor.defined() ? cpu::Map(tensor.data_ptr(), storage_of(tensor.scalar_type()))
                          : cpu::Map();
}

}  // namespace detforge
