#include "detforge/serialize/value.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Value, KeepsWhatItWasMadeOf) {
  const Value value = Value::dict()
                          .set("none", Value())
                          .set("flag", true)
                          .set("count", 3)
                          .set("rate", 0.5)
                          .set("name", "box")
                          .set("list", Value::list({1, "two"}))
                          .set("tuple", Value::tuple({3}))
                          .set("tensor", torch::ones({2}))
                          .set(7, "integer key");
  const Item item = value.item("value");
  EXPECT_TRUE(item["none"].is_none());
  EXPECT_TRUE(item["flag"].boolean());
  EXPECT_EQ(item["count"].integer(), 3);
  EXPECT_EQ(item["count"].number(), 3.0);
  EXPECT_EQ(item["rate"].number(), 0.5);
  EXPECT_EQ(item["name"].string(), "box");
  EXPECT_EQ(item["list"][1].string(), "two");
  EXPECT_EQ(item["tuple"][0].integer(), 3);
  EXPECT_EQ(item["tensor"].tensor().numel(), 2);
  EXPECT_EQ(item[7].string(), "integer key");
}

TEST(Value, SetReplacesAndKeepsTheOrder) {
  Value value = Value::dict().set("b", 1).set("a", 2).set("b", 3);
  ASSERT_EQ(value.entries()->size(), 2U);
  EXPECT_EQ(value.entries()->at(0).key.item("key").string(), "b");
  EXPECT_EQ(value.item("value")["b"].integer(), 3);
}

TEST(Value, ErrorsNameThePath) {
  const Value value = Value::dict().set("model", Value::dict().set("x", "text"));
  const Item item = value.item("checkpoint");
  EXPECT_EQ(message_of([&] { item["model"]["x"].tensor(); }),
            "checkpoint['model']['x'] is a string, expected a tensor");
  EXPECT_EQ(message_of([&] { item["model"]["y"]; }), "checkpoint['model'] has no entry 'y'");
  EXPECT_EQ(message_of([&] { item["model"][3]; }), "checkpoint['model'] has no entry 3");
  const Value list = Value::list({1});
  EXPECT_EQ(message_of([&] { list.item("l")[1]; }), "l has 1 items, item 1 is wanted");
  EXPECT_EQ(message_of([&] { list.item("l")[-1]; }), "l has 1 items, item -1 is wanted");
}

TEST(Value, FindGivesNothingForAMissingKey) {
  const Value value = Value::dict().set("a", 1);
  EXPECT_TRUE(value.item("v").find("a").has_value());
  EXPECT_FALSE(value.item("v").find("b").has_value());
  EXPECT_THROW(value.item("v")["a"].find("b"), Error);
}

}  // namespace
}  // namespace detforge
