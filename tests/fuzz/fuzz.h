#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "detforge/core/error.h"

/// What the targets share. A target is one function, LLVMFuzzerTestOneInput (libFuzzer's name),
/// that takes any bytes. Bad input must end in detforge::Error; everything else is a finding: a
/// crash, a sanitizer's report, another exception, a broken promise, a time-out, too much memory.
namespace detforge::fuzz {

/// Numbers and text cut from the input, front to back; zeros when it has ended.
class ByteSource {
 public:
  ByteSource(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  std::size_t left() const { return bytes_.size(); }

  template <typename Number>
  Number take() {
    Number number = 0;
    const std::size_t size = std::min(sizeof number, bytes_.size());
    if (size > 0) {
      std::memcpy(&number, bytes_.data(), size);
    }
    bytes_.remove_prefix(size);
    return number;
  }

  /// A whole number from `least` to `most`.
  std::int64_t take_in(std::int64_t least, std::int64_t most) {
    const auto span = static_cast<std::uint64_t>(most - least) + 1;
    return least + static_cast<std::int64_t>(take<std::uint16_t>() % span);
  }

  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// A promise of the code under test.
inline void require(bool kept, const char* promise) {
  if (!kept) {
    std::fprintf(stderr, "broken promise: %s\n", promise);
    std::abort();
  }
}

/// Runs `action`; true if it ends without Error.
template <typename Action>
bool accepts(Action&& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    require(!error.message().empty(), "an Error says what happened");
    return false;
  }
}

}  // namespace detforge::fuzz
