#include "detforge/ops/kernel_backend.h"

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

TEST(KernelBackend, NamesAreReadAsTheyAreWritten) {
  for (const KernelBackend backend : {KernelBackend::kOwn, KernelBackend::kAten}) {
    EXPECT_EQ(kernel_backend_of(kernel_backend_name(backend)), backend);
  }
}

TEST(KernelBackend, AnUnknownNameIsAUsageErrorThatNamesTheKnownOnes) {
  try {
    kernel_backend_of("Aten");
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_NE(error.message().find("\"Aten\""), std::string::npos);
    EXPECT_NE(error.fix().find("own"), std::string::npos);
    EXPECT_NE(error.fix().find("aten"), std::string::npos);
  }
}

TEST(KernelBackend, ScopesNestAndEndWithWhatWasBefore) {
  const KernelBackend outside = kernel_backend();
  {
    const ScopedKernelBackend outer(KernelBackend::kAten);
    EXPECT_EQ(kernel_backend(), KernelBackend::kAten);
    {
      const ScopedKernelBackend inner(KernelBackend::kOwn);
      EXPECT_EQ(kernel_backend(), KernelBackend::kOwn);
    }
    EXPECT_EQ(kernel_backend(), KernelBackend::kAten);
  }
  EXPECT_EQ(kernel_backend(), outside);
}

}  // namespace
}  // namespace detforge
