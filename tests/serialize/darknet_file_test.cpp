#include "detforge/serialize/darknet_file.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/torch_file.h"
#include "support/test_data.h"

namespace detforge {
namespace {

template <typename... Numbers>
std::string bytes_of(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

// F40: `seen` has 32 bits before version 0.2, then 64.
TEST(DarknetFile, BothHeadersAreRead) {
  const std::string old = bytes_of(0, 1, 0, std::int32_t{77}, 1.5F, -2.0F);
  const std::string wide = bytes_of(0, 2, 5, std::int64_t{7'000'000'000}, 1.5F, -2.0F);
  EXPECT_EQ(old.size(), 16U + 8U);
  EXPECT_EQ(wide.size(), 20U + 8U);
  for (const auto& [bytes, seen] :
       {std::pair{old, std::int64_t{77}}, std::pair{wide, std::int64_t{7'000'000'000}}}) {
    ASSERT_TRUE(is_darknet_file(bytes));
    const DarknetFile file = read_darknet_file(bytes);
    EXPECT_EQ(file.seen, seen);
    EXPECT_TRUE(file.values.equal(torch::tensor({1.5F, -2.0F})));
  }
  // 1.0 is above 0.2.
  const DarknetFile later = read_darknet_file(bytes_of(1, 0, 0, std::int64_t{3}, 4.0F));
  EXPECT_EQ(later.seen, 3);
  EXPECT_TRUE(later.values.equal(torch::tensor({4.0F})));
}

TEST(DarknetFile, IsWrittenAsItWasRead) {
  const test::TemporaryFolder folder;
  for (const std::string& bytes : {bytes_of(0, 1, 0, std::int32_t{77}, 1.5F, -2.0F),
                                   bytes_of(0, 2, 5, std::int64_t{1} << 40, 0.1F)}) {
    files::write_atomic(folder / "a.weights", bytes);
    const Value content = read_torch_file(folder / "a.weights");
    ASSERT_TRUE(holds_darknet_file(content));
    write_darknet_file(folder / "b.weights", to_darknet_file(content));
    EXPECT_EQ(files::read(folder / "b.weights"), bytes);
  }
}

TEST(DarknetFile, DamagedFilesAreRefused) {
  EXPECT_THROW(read_darknet_file(bytes_of(0, 2, 5, std::int32_t{7})), Error);  // half a counter
  EXPECT_THROW(read_darknet_file(bytes_of(0, 2, 5, std::int64_t{-7})), Error);
  EXPECT_THROW(read_darknet_file(bytes_of(0, 2, 5, std::int64_t{7}, 1.0F, 'x')), Error);
  EXPECT_FALSE(is_darknet_file(bytes_of(0, 2)));
  EXPECT_FALSE(is_darknet_file(bytes_of(0, 2, -1)));
  EXPECT_FALSE(is_darknet_file("\x80\x02}q\x01(this is a pickle"));
}

TEST(DarknetFile, AHeaderAloneIsAFileWithoutNumbers) {
  const test::TemporaryFolder folder;
  const std::string bytes = bytes_of(0, 2, 5, std::int64_t{7});
  const DarknetFile file = read_darknet_file(bytes);
  EXPECT_EQ(file.values.numel(), 0);
  write_darknet_file(folder / "empty.weights", file);
  EXPECT_EQ(files::read(folder / "empty.weights"), bytes);
}

TEST(DarknetFile, OnlyAListOfFloatsIsTakenForNumbers) {
  Value content = to_value(read_darknet_file(bytes_of(0, 2, 5, std::int64_t{7}, 1.0F)));
  content.set("values", torch::ones({2, 2}));
  EXPECT_THROW(to_darknet_file(content), Error);
  content.set("values", torch::ones({2}, torch::kLong));
  EXPECT_THROW(to_darknet_file(content), Error);
}

TEST(DarknetFile, ACounterThatDoesNotFitIsNotCut) {
  const test::TemporaryFolder folder;
  DarknetFile file{.major = 0,
                   .minor = 1,
                   .revision = 0,
                   .seen = std::int64_t{1} << 31,
                   .values = torch::ones({1})};
  EXPECT_THROW(write_darknet_file(folder / "old.weights", file), Error);
}

}  // namespace
}  // namespace detforge
