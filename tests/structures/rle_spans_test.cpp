#include "detforge/structures/rle_spans.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace detforge {
namespace {

using Spans = std::vector<std::array<std::int64_t, 3>>;

Spans spans_of(const Rle& mask) {
  Spans spans;
  for_each_column_span(mask, [&](std::int64_t x, std::int64_t begin, std::int64_t end) {
    spans.push_back({x, begin, end});
  });
  return spans;
}

TEST(ColumnSpans, RunsAreCutWhereColumnsEnd) {
  // . x . . . . x .
  // . x x . . . x .
  // x x . . . x . .
  EXPECT_EQ(spans_of({{3, 8}, {2, 4, 1, 1, 9, 3, 4}}),
            (Spans{{0, 2, 3}, {1, 0, 3}, {2, 1, 2}, {5, 2, 3}, {6, 0, 2}}));
}

TEST(ColumnSpans, EmptyRunsGiveNothingAndDoNotJoin) {
  EXPECT_EQ(spans_of({{3, 2}, {0, 1, 0, 2, 0, 0, 3}}), (Spans{{0, 0, 1}, {0, 1, 3}}));
  EXPECT_EQ(spans_of({{3, 2}, {0, 6}}), (Spans{{0, 0, 3}, {1, 0, 3}}));
  EXPECT_EQ(spans_of({{3, 2}, {6}}), Spans{});
}

}  // namespace
}  // namespace detforge
