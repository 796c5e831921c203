#include "support/npz.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <regex>

#include <zip.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge::test {
namespace {

NpyArray parse_npy(const std::string& bytes, const std::string& name) {
  DETFORGE_CHECK(bytes.size() > 10 && bytes.compare(0, 6, "\x93NUMPY") == 0,
                 name + " is not a .npy array", "");
  const bool v1 = bytes[6] == 1;
  std::uint32_t header_length = 0;
  std::memcpy(&header_length, bytes.data() + 8, v1 ? 2 : 4);
  const std::size_t start = v1 ? 10 : 12;
  const std::string header = bytes.substr(start, header_length);
  std::smatch match;
  NpyArray array;
  DETFORGE_CHECK(std::regex_search(header, match, std::regex("'descr': *'([^']+)'")),
                 name + ": no dtype", "");
  array.dtype = match[1];
  DETFORGE_CHECK(header.find("'fortran_order': False") != std::string::npos,
                 name + ": not in C order", "");
  DETFORGE_CHECK(std::regex_search(header, match, std::regex("'shape': *\\(([^)]*)\\)")),
                 name + ": no shape", "");
  const std::string dims = match[1];
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(dims.begin(), dims.end(), number), end; it != end; ++it) {
    array.shape.push_back(std::stoll(it->str()));
  }
  array.bytes = bytes.substr(start + header_length);
  return array;
}

template <typename T, typename Out>
std::vector<Out> convert(const NpyArray& array) {
  std::vector<Out> out(static_cast<std::size_t>(array.numel()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<Out>(value);
  }
  return out;
}

template <typename Out>
std::vector<Out> convert_any(const NpyArray& array) {
  if (array.dtype == "<f4") return convert<float, Out>(array);
  if (array.dtype == "<f8") return convert<double, Out>(array);
  if (array.dtype == "<i8") return convert<std::int64_t, Out>(array);
  if (array.dtype == "<i4") return convert<std::int32_t, Out>(array);
  if (array.dtype == "|u1" || array.dtype == "|b1") return convert<std::uint8_t, Out>(array);
  throw Error("dtype " + array.dtype + " of a test array is not handled",
              "extend tests/support/npz.cpp");
}

}  // namespace

std::int64_t NpyArray::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}
std::vector<double> NpyArray::to_double() const {
  return convert_any<double>(*this);
}
std::vector<std::int64_t> NpyArray::to_i64() const {
  return convert_any<std::int64_t>(*this);
}

NpyArray read_npy(const std::filesystem::path& path) {
  return parse_npy(files::read(path), path.string());
}

Npz read_npz(const std::filesystem::path& path) {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, &error);
  DETFORGE_CHECK(archive != nullptr, "cannot open " + path.string() + " as a zip file", "");
  Npz arrays;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &stat);
    std::string name = stat.name;
    std::string bytes(stat.size, '\0');
    zip_file_t* file = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    DETFORGE_CHECK(file != nullptr, "cannot read " + name + " in " + path.string(), "");
    zip_fread(file, bytes.data(), bytes.size());
    zip_fclose(file);
    if (name.ends_with(".npy")) {
      name.resize(name.size() - 4);
    }
    arrays.emplace(name, parse_npy(bytes, path.string() + ":" + name));
  }
  zip_close(archive);
  return arrays;
}

}  // namespace detforge::test
