#include "detforge/train/tensorboard.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

/// CRC-32C bit by bit, written from its definition; the writer uses a table.
std::uint32_t slow_crc32c(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1U)));
    }
  }
  return ~crc;
}

std::uint32_t unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8U;
  return (rotated << 15) | (rotated >> 17);
}

template <typename T>
T take(const std::string& bytes, std::size_t& at) {
  T value;
  EXPECT_LE(at + sizeof(T), bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

/// The payloads of all records, after comparing both checksums of each.
std::vector<std::string> read_records(const std::string& file) {
  std::vector<std::string> records;
  std::size_t at = 0;
  while (at < file.size()) {
    const std::string length_bytes = file.substr(at, 8);
    const auto length = take<std::uint64_t>(file, at);
    EXPECT_EQ(unmask(take<std::uint32_t>(file, at)), slow_crc32c(length_bytes));
    records.push_back(file.substr(at, length));
    at += length;
    EXPECT_EQ(unmask(take<std::uint32_t>(file, at)), slow_crc32c(records.back()));
  }
  return records;
}

struct Field {
  int number;
  std::uint64_t integer = 0;
  std::string bytes;
};

std::uint64_t take_varint(const std::string& message, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(message.at(at++));
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) {
      return value;
    }
  }
}

/// The fields of one protocol buffer message.
std::vector<Field> parse(const std::string& message) {
  std::vector<Field> fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = take_varint(message, at);
    Field field{.number = static_cast<int>(key >> 3), .bytes = {}};
    switch (key & 7) {
      case 0:
        field.integer = take_varint(message, at);
        break;
      case 1:
        field.bytes = message.substr(at, 8);
        at += 8;
        break;
      case 2: {
        const std::uint64_t size = take_varint(message, at);
        field.bytes = message.substr(at, size);
        at += size;
        break;
      }
      case 5:
        field.bytes = message.substr(at, 4);
        at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.push_back(field);
  }
  return fields;
}

const Field& find(const std::vector<Field>& fields, int number) {
  for (const Field& field : fields) {
    if (field.number == number) {
      return field;
    }
  }
  throw std::runtime_error("no field " + std::to_string(number));
}

TEST(TensorBoard, Crc32cOfTheStandardCheckString) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
}

TEST(TensorBoard, AnotherReaderFindsTheScalars) {
  const test::TemporaryFolder folder;
  TensorBoardWriter writer(folder.path(), 0);
  writer.add_scalar("total_loss", 1.25, 19);
  writer.add_scalar("bbox/AP", -3e10, 1'000'000);
  writer.flush();
  const auto records = read_records(files::read(writer.path()));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(find(parse(records[0]), 3).bytes, "brain.Event:2");
  const auto event = parse(records[1]);
  EXPECT_EQ(find(event, 2).integer, 19u);
  const auto value = parse(find(parse(find(event, 5).bytes), 1).bytes);
  EXPECT_EQ(find(value, 1).bytes, "total_loss");
  std::size_t at = 0;
  EXPECT_EQ(take<float>(find(value, 2).bytes, at), 1.25f);
  EXPECT_EQ(find(parse(records[2]), 2).integer, 1'000'000u);
}

TEST(TensorBoard, ImagesCarryTheirSizeAndBytes) {
  const test::TemporaryFolder folder;
  TensorBoardWriter writer(folder.path(), 0);
  const std::string encoded(300, 'x');
  writer.add_image("batch", encoded, {.height = 480, .width = 640}, 3);
  writer.flush();
  const auto event = parse(read_records(files::read(writer.path())).at(1));
  const auto image = parse(find(parse(find(parse(find(event, 5).bytes), 1).bytes), 4).bytes);
  EXPECT_EQ(find(image, 1).integer, 480u);
  EXPECT_EQ(find(image, 2).integer, 640u);
  EXPECT_EQ(find(image, 4).bytes, encoded);
}

TEST(TensorBoard, AResumedRunHidesTheStepsThatComeAgain) {
  const test::TemporaryFolder folder;
  const TensorBoardWriter first(folder.path(), 0);
  const TensorBoardWriter resumed(folder.path(), 40);
  EXPECT_LT(first.path(), resumed.path());
  const auto event = parse(read_records(files::read(resumed.path())).at(1));
  EXPECT_EQ(find(event, 2).integer, 40u);
  EXPECT_EQ(find(parse(find(event, 7).bytes), 1).integer, 1u);  // SessionLog.START
}

}  // namespace
}  // namespace detforge
