#pragma once

namespace detforge::cpu {

/// kLanes floats, and the same anywhere in memory (never deduce that type by `auto`: it would lose
/// its alignment). For sums that the compiler would keep in memory if they were arrays.
template <int kLanes>
struct FloatVector;
template <>
struct FloatVector<4> {
  typedef float Type __attribute__((vector_size(16)));
  typedef float InMemory __attribute__((vector_size(16), aligned(4), may_alias));
};
template <>
struct FloatVector<8> {
  typedef float Type __attribute__((vector_size(32)));
  typedef float InMemory __attribute__((vector_size(32), aligned(4), may_alias));
};

}  // namespace detforge::cpu
