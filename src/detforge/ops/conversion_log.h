#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace detforge {

/// Counts, while it lives, the ops of this thread that had no code for maps of 16 bits and so
/// computed on copies in f32: right, but slower and with more memory. At most one per thread.
class ConversionLog {
 public:
  ConversionLog();
  ~ConversionLog();
  ConversionLog(const ConversionLog&) = delete;
  ConversionLog& operator=(const ConversionLog&) = delete;

  const std::map<std::string, std::int64_t>& calls_by_op() const { return calls_; }

  /// Called by such an op; does nothing without a log on this thread.
  static void add(const char* op);

 private:
  std::map<std::string, std::int64_t> calls_;
};

}  // namespace detforge
