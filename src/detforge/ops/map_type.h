#pragma once

#include "detforge/core/tensor.h"
#include "detforge/ops/cpu/map_data.h"

/// The types in which maps are kept between layers: f32, and the 16-bit types f16 and bf16 of mixed
/// precision. Ops compute in f32 whatever the type; a map has the type of the map that it was made
/// from, a parameter's gradient that of the parameter.
namespace detforge {

/// f16 or bf16.
bool is_half_type(at::ScalarType type);

/// "f32", "f16", "bf16"; LibTorch's name of any other type.
const char* map_type_name(at::ScalarType type);

/// True if DetForge's own code works on such a map: dense on the CPU, channels last (not for
/// vectors of [N,C]), and f32, or 16 bits on a processor that converts them.
bool is_own_map(const Tensor& map);

/// The same for any dense tensor on the CPU, whatever its layout.
bool has_own_conversions(const Tensor& tensor);

/// `tensor` in another map type, with its layout; itself if it has that type. The gradient comes
/// back in the tensor's own type. Values beyond the largest of the type become infinite.
Tensor to_map_type(const Tensor& tensor, at::ScalarType type);

/// In f32 what has 16 bits; any other tensor, undefined ones too, as it is.
Tensor widen(const Tensor& tensor);

/// `count` values from `first` on, in the order of memory: in place if they are f32, else copied
/// into `block`.
float* read_values(const Tensor& tensor, std::int64_t first, std::int64_t count, float* block);
/// Puts them back, rounded, if they were not in place.
void write_values(const float* values,
                  const Tensor& tensor,
                  std::int64_t first,
                  std::int64_t count);

/// For kernels: the values of a dense tensor; null if it is undefined. Throws Error for types that
/// are no map types.
cpu::ConstMap const_map(const Tensor& tensor);
cpu::Map map_of(const Tensor& tensor);

}  // namespace detforge
