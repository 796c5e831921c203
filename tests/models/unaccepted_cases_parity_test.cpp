#include <array>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/test_data.h"
#include "support/torch/rcnn_case.h"
#include "support/torch/yolo_case.h"

namespace detforge {
namespace {

using test::ParityCase;

// What the parity suites of all folders look for in a case.json. Extend it with each new suite.
bool is_accepted(const nlohmann::json& description) {
  constexpr std::array kFiles{"roi_align.npz", "nms.npz",          "anchors.npz", "box2box.npz",
                              "matcher.npz",   "resize.npz",       "mapped.npz",  "solver.npz",
                              "paste.npz",     "mask_targets.npz", "rle.npz",     "dets_bbox.json",
                              "d2_names.json", "yolo_units.npz"};
  for (const char* file : kFiles) {
    if (description.contains("files") && description["files"].contains(file)) {
      return true;
    }
  }
  return test::is_rcnn_case(description) || test::is_yolo_case(description);
}

std::string test_name(const testing::TestParamInfo<ParityCase>& info) {
  return fmt::format("{}_{}", info.param.name(), info.index);
}

class UnacceptedCaseParity : public testing::TestWithParam<ParityCase> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(UnacceptedCaseParity);

TEST_P(UnacceptedCaseParity, IsSkippedByName) {
  GTEST_SKIP() << GetParam().folder.string() << ": no suite compares "
               << GetParam().description.value("what", "this case") << " yet";
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         UnacceptedCaseParity,
                         testing::ValuesIn(test::parity_cases([](const auto& d) {
                           return !is_accepted(d);
                         })),
                         test_name);

}  // namespace
}  // namespace detforge
