#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace detforge::test {

/// One array of an .npz file: C order, little endian.
struct NpyArray {
  std::string dtype;  ///< NumPy's: "<f4", "<f8", "<i8", "|u1"
  std::vector<std::int64_t> shape;
  std::string bytes;

  std::int64_t numel() const;
  /// The values converted to double (exact for everything the parity files hold but huge integers).
  std::vector<double> to_double() const;
  std::vector<std::int64_t> to_i64() const;
};

/// Arrays by name. Throws Error if the file is not a readable .npz.
using Npz = std::map<std::string, NpyArray>;
Npz read_npz(const std::filesystem::path& path);
/// A single .npy file.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace detforge::test
