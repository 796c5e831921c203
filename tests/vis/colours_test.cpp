#include "detforge/vis/colours.h"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

namespace detforge {
namespace {

int difference(const Colour& a, const Colour& b) {
  int sum = 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    sum += std::abs(a[channel] - b[channel]);
  }
  return sum;
}

TEST(ClassColour, FirstEightyDiffer) {
  std::set<Colour> seen;
  for (std::int64_t label = 0; label < 80; ++label) {
    seen.insert(class_colour(label));
  }
  EXPECT_EQ(seen.size(), 80U);
}

TEST(ObjectColours, LoneObjectsHaveTheirClassColour) {
  const std::vector<Box> boxes = {{0, 0, 10, 10}, {100, 100, 110, 110}, {5, 5, 20, 20}};
  const std::vector<std::int64_t> labels = {4, 4, 7};
  const auto colours = object_colours(boxes, labels, 80);
  EXPECT_EQ(colours[0], class_colour(4));
  EXPECT_EQ(colours[1], class_colour(4));
  EXPECT_EQ(colours[2], class_colour(7));  // overlaps only another class
}

TEST(ObjectColours, TouchingObjectsOfAClassDiffer) {
  // A row of boxes, each touching the next two.
  std::vector<Box> boxes;
  for (int i = 0; i < 20; ++i) {
    boxes.push_back({10.0 * i, 0, 10.0 * i + 20, 10});
  }
  const std::vector<std::int64_t> labels(boxes.size(), 0);
  for (const std::int64_t classes : {0, 1, 3, 80}) {
    const auto colours = object_colours(boxes, labels, classes);
    for (std::size_t i = 0; i + 2 < boxes.size(); ++i) {
      EXPECT_GT(difference(colours[i], colours[i + 1]), 40) << classes << " " << i;
      EXPECT_GT(difference(colours[i], colours[i + 2]), 40) << classes << " " << i;
    }
  }
}

TEST(ObjectColours, MoreNeighboursThanShadesAreColouredAllTheSame) {
  const std::vector<Box> boxes(50, {0, 0, 9, 9});
  const std::vector<std::int64_t> labels(50, 3);
  EXPECT_EQ(object_colours(boxes, labels, 1).size(), 50U);
}

}  // namespace
}  // namespace detforge
