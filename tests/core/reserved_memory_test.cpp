#include "detforge/core/reserved_memory.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::size_t kPage = ReservedMemory::kPage;

TEST(ReservedMemory, IsAlignedToHugePagesAndRoundedUpToThem) {
  const ReservedMemory memory(3 * kPage + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.begin()) % kPage, 0U);
  EXPECT_EQ(memory.size(), 4 * kPage);
  EXPECT_TRUE(memory.contains(memory.begin() + memory.size() - 1));
  EXPECT_FALSE(memory.contains(memory.begin() + memory.size()));
}

TEST(ReservedMemory, OpenedMemoryIsUsableAndReadsAsZerosAfterItsRelease) {
  ReservedMemory memory(8 * kPage);
  memory.open(4 * kPage);
  std::memset(memory.begin(), 5, 4 * kPage);
  memory.release(1, 3);
  EXPECT_EQ(memory.begin()[kPage - 1], 5);
  EXPECT_EQ(memory.begin()[kPage], 0);
  EXPECT_EQ(memory.begin()[3 * kPage - 1], 0);
  EXPECT_EQ(memory.begin()[3 * kPage], 5);
}

TEST(ReservedMemory, MoreThanWasReservedCannotBeOpened) {
  ReservedMemory memory(8 * kPage);
  EXPECT_THROW(memory.open(8 * kPage + 1), Error);
  memory.open(8 * kPage);
  memory.begin()[8 * kPage - 1] = 1;
}

TEST(ReservedMemory, WithoutRoomForTheAddressesTheErrorNamesTheLimit) {
  try {
    const ReservedMemory memory(std::size_t{1} << 60);
    FAIL() << "nobody has so many addresses";
  } catch (const Error& error) {
    EXPECT_NE(error.fix().find("ulimit -v"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace detforge
