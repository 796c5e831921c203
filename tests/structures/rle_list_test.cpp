#include "detforge/structures/rle_list.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace detforge {
namespace {

using Counts = std::vector<std::uint32_t>;

Counts counts_of(const RleList& list, std::size_t i) {
  return {list[i].counts.begin(), list[i].counts.end()};
}

TEST(RleList, KeepsMasksOfDifferentSizesInOrder) {
  RleList list;
  EXPECT_TRUE(list.empty());
  list.push_back(Rle{{3, 4}, {4, 4, 4}});
  list.push_back(Rle{{2, 2}, {}});  // no runs at all
  list.push_back(Rle{{1, 5}, {0, 5}});
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(counts_of(list, 0), (Counts{4, 4, 4}));
  EXPECT_EQ(list[0].size, (ImageSize{3, 4}));
  EXPECT_TRUE(list[1].counts.empty());
  EXPECT_EQ(counts_of(list, 2), (Counts{0, 5}));
  EXPECT_EQ(list[2].size, (ImageSize{1, 5}));
  EXPECT_EQ(list.run_count(), 5U);
  EXPECT_GE(list.bytes(), 5 * sizeof(std::uint32_t));
}

TEST(RleList, AppendsAnotherList) {
  RleList list, other;
  list.push_back(Rle{{3, 4}, {4, 4, 4}});
  other.push_back(Rle{{1, 5}, {0, 5}});
  other.push_back(Rle{{1, 2}, {1, 1}});
  list.append(other);
  list.append({});
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(counts_of(list, 0), (Counts{4, 4, 4}));
  EXPECT_EQ(counts_of(list, 1), (Counts{0, 5}));
  EXPECT_EQ(counts_of(list, 2), (Counts{1, 1}));
  EXPECT_EQ(list[2].size, (ImageSize{1, 2}));
}

TEST(RleList, StartsAnewAfterClear) {
  RleList list;
  list.push_back(Rle{{3, 4}, {4, 4, 4}});
  list.clear();
  EXPECT_TRUE(list.empty());
  list.push_back(Rle{{1, 5}, {0, 5}});
  EXPECT_EQ(counts_of(list, 0), (Counts{0, 5}));
}

TEST(RleList, IsAsItWasAfterAFailedWrite) {
  RleList list;
  list.push_back(Rle{{3, 4}, {4, 4, 4}});
  const auto fail = [](Counts& counts) -> ImageSize {
    counts.push_back(7);
    throw std::runtime_error("broken");
  };
  EXPECT_THROW(list.emplace_back(fail), std::runtime_error);
  EXPECT_EQ(list.size(), 1U);
  list.push_back(Rle{{1, 5}, {0, 5}});
  EXPECT_EQ(counts_of(list, 1), (Counts{0, 5}));
}

}  // namespace
}  // namespace detforge
