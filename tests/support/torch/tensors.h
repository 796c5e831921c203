#pragma once

#include <string>

#include <gtest/gtest.h>

#include "detforge/core/tensor.h"
#include "support/npz.h"

namespace detforge::test {

/// The array as a tensor of its own dtype (f32, f64, i64, u8), owning its memory.
Tensor to_tensor(const NpyArray& array);

struct Tolerance {
  double rtol = 0.0;
  double atol = 0.0;
};

/// EXPECT_TRUE(expect_close(actual, expected, {.rtol = 1e-5})): |a - e| <= atol + rtol * |e|
/// everywhere, same shape, NaN equal only to NaN. A failure prints the worst index with both
/// values.
testing::AssertionResult expect_close(const Tensor& actual,
                                      const Tensor& expected,
                                      Tolerance tolerance);

/// ||actual - expected|| / ||expected|| <= limit (absolute where expected is all zero).
testing::AssertionResult expect_close_l2(const Tensor& actual,
                                         const Tensor& expected,
                                         double limit);

}  // namespace detforge::test
