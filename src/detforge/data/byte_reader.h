#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace detforge {

/// Reads unsigned integers at byte offsets of foreign data; nullopt where the data ends before.
/// Borrows the data.
class ByteReader {
 public:
  enum class Order { kLittle, kBig };
  ByteReader(std::string_view bytes, Order order) : bytes_(bytes), order_(order) {}

  std::optional<std::uint32_t> u16(std::size_t at) const { return read(at, 2); }
  std::optional<std::uint32_t> u24(std::size_t at) const { return read(at, 3); }
  std::optional<std::uint32_t> u32(std::size_t at) const { return read(at, 4); }

 private:
  std::optional<std::uint32_t> read(std::size_t at, std::size_t count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) {
      return std::nullopt;
    }
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t next = order_ == Order::kBig ? i : count - 1 - i;
      value = value << 8 | static_cast<std::uint8_t>(bytes_[at + next]);
    }
    return value;
  }

  std::string_view bytes_;
  Order order_;
};

}  // namespace detforge
