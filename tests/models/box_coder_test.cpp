#include "detforge/models/box_coder.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/iou.h"
#include "support/test_data.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

TEST(BoxCoder, EncodesByHand) {
  // reference: centre (5, 5), 10 x 10; target: centre (7, 10), 8 x 20
  // deltas: 2 * 0.2, 3 * 0.5, 4 * log(0.8), 5 * log(2)
  const Tensor deltas = BoxCoder({2, 3, 4, 5})
                            .encode(torch::tensor({{0.0F, 0.0F, 10.0F, 10.0F}}),
                                    torch::tensor({{3.0F, 0.0F, 11.0F, 20.0F}}));
  EXPECT_TRUE(
      expect_close(deltas, torch::tensor({{0.4F, 1.5F, -0.892574F, 3.465736F}}), {.atol = 1e-5}));
}

TEST(BoxCoder, CapsGrowthWhenDecoding) {
  const Tensor box = BoxCoder({1, 1, 1, 1})
                         .decode(torch::tensor({{0.0F, 0.0F, 50.0F, 50.0F}}),
                                 torch::tensor({{0.0F, 0.0F, 16.0F, 16.0F}}));
  EXPECT_TRUE(
      expect_close(box, torch::tensor({{-492.0F, -492.0F, 508.0F, 508.0F}}), {.rtol = 1e-5}));
}

TEST(BoxCoder, HandlesNoBoxes) {
  const BoxCoder coder({1, 1, 1, 1});
  const Tensor none = torch::zeros({0, 4});
  EXPECT_EQ(coder.encode(none, none).sizes(), none.sizes());
  EXPECT_EQ(coder.decode(torch::zeros({0, 12}), none).sizes(), (std::vector<std::int64_t>{0, 12}));
}

TEST(BoxCoder, RefusesReferenceWithoutArea) {
  const Tensor flat = torch::tensor({{0.0F, 0.0F, 10.0F, 0.0F}});
  EXPECT_THROW(BoxCoder({1, 1, 1, 1}).encode(flat, flat), Error);
  EXPECT_THROW(BoxCoder({1, 1, 0, 1}), Error);
}

TEST(BoxCoderProperty, DecodeOfEncodeIsIdentity) {
  // sides of 1 to 60 pixels: no ratio above the cap of 1000 / 16
  const Tensor reference = test::random_boxes(500, 60, 1);
  const Tensor target = test::random_boxes(500, 60, 2);
  const BoxCoder coder({10, 10, 5, 5});
  EXPECT_TRUE(expect_close(coder.decode(coder.encode(reference, target), reference), target,
                           {.atol = 5e-4}));
}

TEST(BoxCoderProperty, OneClassAtATimeEqualsAllClasses) {
  const Tensor reference = test::random_boxes(20, 100, 3);
  const Tensor deltas = test::random_tensor({20, 12}, 4);
  const BoxCoder coder({10, 10, 5, 5});
  const Tensor all = coder.decode(deltas, reference);
  for (std::int64_t k = 0; k < 3; ++k) {
    const auto one = coder.decode(deltas.slice(1, 4 * k, 4 * k + 4), reference);
    EXPECT_TRUE(expect_close(all.slice(1, 4 * k, 4 * k + 4), one, {}));
  }
}

TEST(BoxCoderParity, EqualsDetectron2) {
  const auto cases =
      test::parity_cases([](const nlohmann::json& d) { return d.contains("scale_clamp"); });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity_case : cases) {
    const test::Npz arrays = test::read_npz(parity_case.folder / "box2box.npz");
    const auto array = [&](const std::string& name) { return test::to_tensor(arrays.at(name)); };
    for (const auto& [name, weights] : {std::pair("w1_1", std::array{1.0, 1.0, 1.0, 1.0}),
                                        std::pair("w10_5", std::array{10.0, 10.0, 5.0, 5.0})}) {
      const std::string prefix = name;
      const BoxCoder coder(weights);
      EXPECT_TRUE(expect_close(coder.encode(array("src"), array("dst")), array(prefix + "/deltas"),
                               {.rtol = 1e-6, .atol = 1e-6}));
      EXPECT_TRUE(expect_close(coder.decode(array(prefix + "/apply_in"), array("src")),
                               array(prefix + "/apply_out"), {.rtol = 1e-6, .atol = 1e-4}));
    }
    const Tensor clipped = clip_boxes(array("clip_in"), {250, 333});
    EXPECT_TRUE(expect_close(clipped, array("clip_out"), {}));
    EXPECT_TRUE(
        expect_close(nonempty_boxes(clipped, 5.0).to(torch::kByte), array("clip_nonempty"), {}));
    EXPECT_TRUE(expect_close(box_area(clipped), array("clip_area"), {.rtol = 1e-6}));
    EXPECT_TRUE(expect_close(pairwise_iou(array("src"), array("dst")), array("iou"),
                             {.rtol = 1e-5, .atol = 1e-7}));
  }
}

}  // namespace
}  // namespace detforge
