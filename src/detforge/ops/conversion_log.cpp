#include "detforge/ops/conversion_log.h"

#include "detforge/core/error.h"

namespace detforge {
namespace {

thread_local ConversionLog* current = nullptr;

}  // namespace

ConversionLog::ConversionLog() {
  DETFORGE_CHECK(current == nullptr, "two conversion logs on one thread", "end the first one");
  current = this;
}

ConversionLog::~ConversionLog() {
  current = nullptr;
}

void ConversionLog::add(const char* op) {
  if (current != nullptr) {
    ++current->calls_[op];
  }
}

}  // namespace detforge
