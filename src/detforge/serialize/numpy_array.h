#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "detforge/serialize/pickle_object.h"

/// NumPy arrays, as their pickles describe them, as tensors.
namespace detforge::pickle {

/// "f4", "<i8", ">u2", "b1", ...: booleans, integers and floats of torch's sizes. Throws Error for
/// other types.
NumpyDtype parse_numpy_dtype(std::string_view name);

/// The array as a tensor that owns its memory; strides follow the order. uint16 becomes int32,
/// uint32 and uint64 become int64, for torch 1.13 has none of them. `bytes` may be freed
/// afterwards. Throws Error if `bytes` has not exactly the size that shape and dtype ask for, or a
/// uint64 exceeds int64.
Tensor numpy_tensor(const NumpyDtype& dtype,
                    const std::vector<std::int64_t>& shape,
                    bool fortran_order,
                    std::string_view bytes);

}  // namespace detforge::pickle
