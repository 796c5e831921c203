#include "detforge/core/error.h"

#include <gtest/gtest.h>

namespace detforge {
namespace {

TEST(Error, MessageNamesWhatWhereAndFix) {
  Error error("bbox has width -3", "give width and height");
  error.add_where("annotation 412").add_where("train.json");
  EXPECT_STREQ(
      error.what(),
      "bbox has width -3 | where: train.json, annotation 412 | fix: give width and height");
}

TEST(Error, CheckEvaluatesItsMessageOnlyOnFailure) {
  int evaluated = 0;
  auto message = [&] {
    ++evaluated;
    return std::string("bad");
  };
  DETFORGE_CHECK(true, message(), "");
  EXPECT_EQ(evaluated, 0);
  EXPECT_THROW(DETFORGE_CHECK(false, message(), ""), Error);
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace detforge
