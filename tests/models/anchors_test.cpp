#include "detforge/models/anchors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

TEST(Anchors, CellAnchorHasGivenAreaAndRatio) {
  // size 32, ratio 0.5: width sqrt(1024 / 0.5) = 45.2548, height 22.6274
  const Tensor cells = cell_anchors({32}, {0.5, 1.0});
  const Tensor expected =
      torch::tensor({{-22.6274F, -11.3137F, 22.6274F, 11.3137F}, {-16.0F, -16.0F, 16.0F, 16.0F}});
  EXPECT_TRUE(expect_close(cells, expected, {.atol = 1e-4}));
}

TEST(Anchors, GridIsInRowColumnAnchorOrder) {
  AnchorGenerator generator({.sizes = {{2}}, .aspect_ratios = {{1.0}}, .offset = 0.5}, {4});
  // 1 x 2 cells of 4 pixels, centres at (2, 2) and (6, 2), anchors 2 wide
  const Tensor expected = torch::tensor({{1.0F, 1.0F, 3.0F, 3.0F}, {5.0F, 1.0F, 7.0F, 3.0F}});
  EXPECT_TRUE(expect_close(generator.grid({{1, 2}})[0], expected, {}));
}

TEST(Anchors, SecondCallWithTheSameSizeSharesTheTensor) {
  AnchorGenerator generator({}, {4, 8, 16, 32, 64});
  const std::vector<ImageSize> sizes{{8, 9}, {4, 5}, {2, 3}, {1, 2}, {1, 1}};
  EXPECT_TRUE(generator.grid(sizes)[0].is_same(generator.grid(sizes)[0]));
}

TEST(Anchors, EmptyMapHasNoAnchors) {
  AnchorGenerator generator({.sizes = {{2}}}, {4});
  EXPECT_EQ(generator.grid({{0, 3}})[0].sizes(), (std::vector<std::int64_t>{0, 4}));
}

TEST(Anchors, RefusesSizesForAnotherNumberOfLevels) {
  EXPECT_THROW(AnchorGenerator({.sizes = {{32}, {64}}}, {4, 8, 16}), Error);
  EXPECT_THROW(AnchorGenerator({.offset = 1.0}, {4, 8, 16, 32, 64}), Error);
}

TEST(AnchorsParity, CellsAndGridsEqualDetectron2Exactly) {
  const auto cases = test::parity_cases(
      [](const nlohmann::json& d) { return d.value("what", "") == "DefaultAnchorGenerator"; });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity_case : cases) {
    const test::Npz expected = test::read_npz(parity_case.folder / "anchors.npz");
    for (const auto& [name, set] : parity_case.description.at("sets").items()) {
      const auto strides = set.at("strides").get<std::vector<std::int64_t>>();
      AnchorGenerator generator({.sizes = set.at("sizes"),
                                 .aspect_ratios = set.at("aspect_ratios"),
                                 .offset = set.at("offset")},
                                strides);
      std::vector<ImageSize> sizes;
      for (const auto& size : set.at("grids_hw")) {
        sizes.push_back({size.at(0), size.at(1)});
      }
      const std::vector<Tensor> grids = generator.grid(sizes);
      for (std::size_t level = 0; level < grids.size(); ++level) {
        EXPECT_TRUE(expect_close(
            grids[level], test::to_tensor(expected.at(fmt::format("{}/level{}", name, level))), {}))
            << name << " level " << level;
      }
    }
  }
}

}  // namespace
}  // namespace detforge
