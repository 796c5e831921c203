#pragma once

#include <cstddef>
#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"

namespace detforge::cpu {

/// How the values of a map lie in memory. Kernels convert while they load and store (to the
/// nearest, ties to even; beyond the largest value: infinity); all sums are formed in f32.
enum class Storage : std::uint8_t { kFloat, kHalf, kBFloat16 };

/// IEEE 754 binary16: 5 bits of exponent, largest value 65504.
struct Half {
  std::uint16_t bits;
};

/// The upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

DETFORGE_KERNEL_INLINE constexpr std::int64_t bytes_of(Storage storage) {
  return storage == Storage::kFloat ? 4 : 2;
}

/// A place in a map that is read: a pointer that knows the type of its values.
class ConstMap {
 public:
  constexpr ConstMap() = default;
  DETFORGE_KERNEL_INLINE constexpr ConstMap(std::nullptr_t) {}
  DETFORGE_KERNEL_INLINE constexpr ConstMap(const float* data) : data_(data) {}
  DETFORGE_KERNEL_INLINE constexpr ConstMap(const void* data, Storage storage)
      : data_(data), storage_(storage) {}

  DETFORGE_KERNEL_INLINE Storage storage() const { return storage_; }
  DETFORGE_KERNEL_INLINE bool is_null() const { return data_ == nullptr; }
  template <typename T>
  DETFORGE_KERNEL_INLINE const T* as() const {
    return static_cast<const T*>(data_);
  }
  /// So many values further.
  DETFORGE_KERNEL_INLINE ConstMap operator+(std::int64_t values) const {
    return {static_cast<const std::byte*>(data_) + values * bytes_of(storage_), storage_};
  }

 private:
  const void* data_ = nullptr;
  Storage storage_ = Storage::kFloat;
};

/// A place in a map that is written.
class Map {
 public:
  constexpr Map() = default;
  DETFORGE_KERNEL_INLINE constexpr Map(std::nullptr_t) {}
  DETFORGE_KERNEL_INLINE constexpr Map(float* data) : data_(data) {}
  DETFORGE_KERNEL_INLINE constexpr Map(void* data, Storage storage)
      : data_(data), storage_(storage) {}

  DETFORGE_KERNEL_INLINE Storage storage() const { return storage_; }
  DETFORGE_KERNEL_INLINE bool is_null() const { return data_ == nullptr; }
  template <typename T>
  DETFORGE_KERNEL_INLINE T* as() const {
    return static_cast<T*>(data_);
  }
  DETFORGE_KERNEL_INLINE Map operator+(std::int64_t values) const {
    return {static_cast<std::byte*>(data_) + values * bytes_of(storage_), storage_};
  }
  DETFORGE_KERNEL_INLINE operator ConstMap() const { return {data_, storage_}; }

 private:
  void* data_ = nullptr;
  Storage storage_ = Storage::kFloat;
};

/// Calls visit with a null pointer of the storage's type: kernels are written for one type and are
/// compiled for all.
template <typename Visit>
DETFORGE_KERNEL_INLINE void for_storage(Storage storage, const Visit& visit) {
  switch (storage) {
    case Storage::kFloat:
      return visit(static_cast<float*>(nullptr));
    case Storage::kHalf:
      return visit(static_cast<Half*>(nullptr));
    case Storage::kBFloat16:
      return visit(static_cast<BFloat16*>(nullptr));
  }
}

}  // namespace detforge::cpu
