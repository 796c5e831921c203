#pragma once

#include <filesystem>
#include <string_view>

#include "detforge/serialize/value.h"

/// The weight containers one by one; read_torch_file chooses. Errors do not name the file: the
/// caller does.
namespace detforge {

/// torch >= 1.6: a zip file with PREFIX/data.pkl and the storages' bytes in PREFIX/data/KEY.
Value read_torch_zip(const std::filesystem::path& path);

/// Older: pickles of a magic number, a protocol number, facts on the machine, the object, and the
/// storages' keys; then each storage as a 64-bit element count and its bytes.
bool is_torch_legacy(std::string_view content);
Value read_torch_legacy(std::string_view content);

/// A 64-bit length, so much JSON (name -> dtype, shape, data_offsets), then the numbers.
bool is_safetensors(std::string_view content);
Value read_safetensors(std::string_view content);

/// Makes every byte of a bool tensor 0 or 1: any other is undefined behaviour in C++. Other types
/// stay as they are.
void normalise_bools_(const Tensor& tensor);

}  // namespace detforge
