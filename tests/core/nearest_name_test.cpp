#include "detforge/core/nearest_name.h"

#include <gtest/gtest.h>

namespace detforge {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);  // k>s, e>i, +g
  EXPECT_EQ(edit_distance("filter", "filters"), 1U);
}

TEST(NearestName, IgnoresCaseAndPrefersTheFirstOfEquals) {
  EXPECT_EQ(nearest_name("FILTER", {"groups", "filters", "filtera"}), "filters");
  EXPECT_EQ(nearest_name("size", {"size"}), "size");
}

TEST(NearestName, IsEmptyIfNothingIsNear) {
  EXPECT_EQ(nearest_name("momentum", {"filters", "size"}), "");
  EXPECT_EQ(nearest_name("ab", {"xyz"}), "");  // three edits, two are allowed
  EXPECT_EQ(nearest_name("ab", {}), "");
}

}  // namespace
}  // namespace detforge
