#include "detforge/serialize/numpy_array.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge::pickle {
namespace {

/// The torch type with the same bytes; unsigned numbers use the signed type of their size for the
/// moment.
std::optional<at::ScalarType> same_size_type(char kind, int size) {
  if (kind == 'f') {
    return size == 2   ? std::optional(at::kHalf)
           : size == 4 ? std::optional(at::kFloat)
           : size == 8 ? std::optional(at::kDouble)
                       : std::nullopt;
  }
  if (kind == 'b') {
    return size == 1 ? std::optional(at::kBool) : std::nullopt;
  }
  if (kind != 'i' && kind != 'u') {
    return std::nullopt;
  }
  switch (size) {
    case 1:
      return kind == 'u' ? at::kByte : at::kChar;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      return std::nullopt;
  }
}

void copy_swapped(std::string_view bytes, char* to, std::size_t size) {
  for (std::size_t start = 0; start < bytes.size(); start += size) {
    for (std::size_t i = 0; i < size; ++i) {
      to[start + i] = bytes[start + size - 1 - i];
    }
  }
}

Tensor widen_unsigned(const Tensor& numbers, int size) {
  switch (size) {
    case 2:
      return numbers.to(at::kInt).bitwise_and(0xFFFF);
    case 4:
      return numbers.to(at::kLong).bitwise_and(std::int64_t{0xFFFFFFFF});
    default:
      DETFORGE_CHECK(size != 8 || numbers.numel() == 0 || numbers.min().item<std::int64_t>() >= 0,
                     "a uint64 array holds numbers above 9.2e18", "store it as int64");
      return numbers;
  }
}

}  // namespace

NumpyDtype parse_numpy_dtype(std::string_view name) {
  const std::string_view full = name;
  NumpyDtype dtype;
  if (!name.empty() && (name[0] == '<' || name[0] == '>' || name[0] == '|' || name[0] == '=')) {
    dtype.swapped = name[0] == '>';
    name.remove_prefix(1);
  }
  if (name.size() == 2) {
    dtype.kind = name[0];
    dtype.size = name[1] - '0';
  }
  DETFORGE_CHECK(name.size() == 2 && same_size_type(dtype.kind, dtype.size),
                 fmt::format("a NumPy array of type '{}'", full),
                 "only booleans, integers and floats can be read");
  return dtype;
}

Tensor numpy_tensor(const NumpyDtype& dtype,
                    const std::vector<std::int64_t>& shape,
                    bool fortran_order,
                    std::string_view bytes) {
  std::int64_t size = dtype.size;
  bool fits = true;
  for (const std::int64_t extent : shape) {
    fits = fits && !__builtin_mul_overflow(size, extent, &size);
  }
  if (!fits || size != static_cast<std::int64_t>(bytes.size())) {
    fail_malformed(fmt::format("a NumPy array of shape [{}] with {} bytes", fmt::join(shape, ", "),
                               bytes.size()));
  }
  const std::vector<std::int64_t> memory_shape =
      fortran_order ? std::vector<std::int64_t>(shape.rbegin(), shape.rend()) : shape;
  Tensor numbers = at::empty(memory_shape, *same_size_type(dtype.kind, dtype.size));
  auto* to = static_cast<char*>(numbers.data_ptr());
  if (dtype.kind == 'b') {
    std::transform(bytes.begin(), bytes.end(), to,
                   [](char byte) { return static_cast<char>(byte != 0); });
  } else if (dtype.swapped) {
    copy_swapped(bytes, to, static_cast<std::size_t>(dtype.size));
  } else if (!bytes.empty()) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
  if (fortran_order) {
    numbers = numbers.permute([&] {
      std::vector<std::int64_t> order(shape.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<std::int64_t>(order.size() - 1 - i);
      }
      return order;
    }());
  }
  return dtype.kind == 'u' ? widen_unsigned(numbers, dtype.size) : numbers;
}

}  // namespace detforge::pickle
