#include "detforge/eval/postprocess.h"

#include <string>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/npz.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

Tensor boxes_of(std::vector<float> values) {
  return torch::tensor(values).reshape({-1, 4});
}

Detections three(const Tensor& boxes) {
  return {.boxes = boxes,
          .scores = torch::tensor({0.9F, 0.8F, 0.7F}),
          .labels = torch::tensor({2, 0, 1}, torch::kLong)};
}

TEST(Postprocess, ScalesClipsAndDropsEmptyBoxes) {
  // 100x200 (h x w) to 50x400: x doubles, y halves. The second box ends right of the image, the
  // third lies outside.
  const Tensor boxes = boxes_of({10, 20, 30, 40, 150, 0, 230, 120, 205, 5, 220, 9});
  const Detections result =
      postprocess(three(boxes), {.size = {100, 200}}, {.height = 50, .width = 400});
  EXPECT_TRUE(torch::equal(result.boxes, boxes_of({20, 10, 60, 20, 300, 0, 400, 50})));
  EXPECT_TRUE(torch::equal(result.scores, torch::tensor({0.9F, 0.8F})));
  EXPECT_TRUE(torch::equal(result.labels, torch::tensor({2, 0}, torch::kLong)));
  EXPECT_EQ(boxes[0][0].item<float>(), 10);  // the input is left alone
}

// A letterbox: the 40 x 80 picture lies at (5, 30) of the network input, and its file has twice the
// size. x = (x' - 5) * 2, y = (y' - 30) * 2; the second box reaches into the border, the third lies
// in it.
TEST(Postprocess, TakesTheBorderOfALetterboxOff) {
  const Tensor boxes = boxes_of({5, 30, 45, 40, 65, 20, 90, 50, 5, 0, 85, 30});
  const Detections result = postprocess(three(boxes), {.left = 5, .top = 30, .size = {40, 80}},
                                        {.height = 80, .width = 160});
  EXPECT_TRUE(torch::equal(result.boxes, boxes_of({0, 0, 80, 20, 120, 0, 160, 40})));
  EXPECT_TRUE(torch::equal(result.labels, torch::tensor({2, 0}, torch::kLong)));
}

TEST(Postprocess, MasksStayWithTheirBoxes) {
  Detections detections = three(boxes_of({205, 5, 220, 9, 10, 20, 30, 40, 150, 0, 230, 120}));
  detections.masks = torch::arange(12, torch::kFloat).reshape({3, 2, 2});
  const Detections result =
      postprocess(detections, {.size = {100, 200}}, {.height = 50, .width = 400});
  ASSERT_EQ(result.boxes.size(0), 2);  // the first lay outside
  EXPECT_TRUE(torch::equal(result.masks, detections.masks.slice(0, 1)));
  detections.masks = Tensor();
  EXPECT_FALSE(postprocess(detections, {.size = {100, 200}}, {50, 400}).masks.defined());
}

TEST(Postprocess, TakesNoDetections) {
  const Detections none = {.boxes = torch::empty({0, 4}),
                           .scores = torch::empty({0}),
                           .labels = torch::empty({0}, torch::kLong)};
  const Detections result = postprocess(none, {.size = {10, 10}}, {20, 20});
  EXPECT_EQ(result.boxes.sizes(), (at::IntArrayRef{0, 4}));
  EXPECT_EQ(result.labels.size(0), 0);
}

TEST(Postprocess, RefusesAnEmptyNetworkSize) {
  EXPECT_THROW(postprocess(three(torch::ones({3, 4})), {.size = {0, 10}}, {20, 20}), Error);
}

TEST(PostprocessParity, EqualsDetectron2OnEveryCase) {
  const auto cases = test::parity_cases([](const nlohmann::json& description) {
    return description.contains("output_sizes") && description.at("files").contains("infer.npz") &&
           description.at("files").at("infer.npz").at("arrays").contains("post_boxes0");
  });
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& parity : cases) {
    SCOPED_TRACE(parity.folder.string());
    const test::Npz arrays = test::read_npz(parity.folder / "infer.npz");
    std::int64_t compared = 0;
    const auto& network = parity.description.at("image_sizes");
    const auto& original = parity.description.at("output_sizes");
    for (std::size_t i = 0; i < network.size(); ++i) {
      const auto array = [&](const char* name) {
        return test::to_tensor(arrays.at(name + std::to_string(i)));
      };
      const Detections result =
          postprocess({array("det_boxes"), array("det_scores"), array("det_classes")},
                      {.size = {network[i][0], network[i][1]}}, {original[i][0], original[i][1]});
      EXPECT_TRUE(test::expect_close(result.boxes, array("post_boxes"), {.rtol = 1e-7}));
      EXPECT_TRUE(test::expect_close(result.scores, array("post_scores"), {}));
      EXPECT_TRUE(torch::equal(result.labels, array("post_classes")));
      compared += result.labels.numel();
    }
    EXPECT_GT(compared, 0);
  }
}

}  // namespace
}  // namespace detforge
