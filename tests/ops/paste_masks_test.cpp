#include "detforge/ops/paste_masks.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/allocator.h"
#include "detforge/core/error.h"
#include "support/npz.h"
#include "support/test_data.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// [H,W] bool. Reads the runs one pixel at a time, and checks that they fill the image.
Tensor decode(const Rle& rle) {
  Tensor flat = torch::zeros({rle.size.height * rle.size.width}, torch::kBool);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < rle.counts.size(); ++i) {
    const std::int64_t end = at + rle.counts[i];
    EXPECT_TRUE(i == 0 || rle.counts[i] > 0) << "run " << i << " is empty";
    flat.slice(0, at, end).fill_(i % 2 == 1);
    at = end;
  }
  EXPECT_EQ(at, flat.numel());
  return flat.view({rle.size.width, rle.size.height}).t().contiguous();
}

Tensor decode(const std::vector<Rle>& rles) {
  std::vector<Tensor> masks;
  for (const Rle& rle : rles) {
    masks.push_back(decode(rle));
  }
  return torch::stack(masks);
}

// Detectron2's _do_paste_mask, whole image: [D,H,W] probabilities.
Tensor naive_paste(const Tensor& masks, const Tensor& boxes, ImageSize size) {
  std::vector<Tensor> pasted;
  for (std::int64_t d = 0; d < masks.size(0); ++d) {
    const auto box = boxes[d];
    const auto axis = [&](std::int64_t low, std::int64_t pixels) {
      const Tensor centres = torch::arange(pixels).to(torch::kFloat) + 0.5;
      return (centres - box[low]) / (box[low + 2] - box[low]) * 2 - 1;
    };
    const auto near = [&](std::int64_t low, std::int64_t pixels) {
      const Tensor index = torch::arange(pixels).to(torch::kFloat);
      return (index >= box[low].floor() - 1).logical_and(index < box[low + 2].ceil() + 1);
    };
    const Tensor x = axis(0, size.width).unsqueeze(0).expand({size.height, size.width});
    const Tensor y = axis(1, size.height).unsqueeze(1).expand({size.height, size.width});
    const Tensor grid = torch::stack({x, y}, 2).unsqueeze(0);
    const Tensor sampled =
        at::grid_sampler(masks[d].view({1, 1, masks.size(1), masks.size(2)}), grid,
                         /*interpolation_mode=*/0, /*padding_mode=*/0, /*align_corners=*/false);
    const Tensor region = near(1, size.height).unsqueeze(1).logical_and(near(0, size.width));
    pasted.push_back(sampled[0][0] * region);
  }
  return torch::stack(pasted);
}

// Pixels that differ although the probability is not within rounding of the threshold.
std::int64_t wrong_pixels(const Tensor& pasted, const Tensor& probability, double threshold) {
  const Tensor differs = pasted.ne(probability >= threshold);
  const Tensor clear = (probability - threshold).abs() > 1e-6;
  return differs.logical_and(clear).sum().item<std::int64_t>();
}

TEST(PasteMasks, SquareOfFourByHand) {
  // A 2x2 grid over the box (1,1)-(5,5): a cell is 2 pixels, its centres lie at pixels 2 and 4, so
  // pixel centres 1.5, 2.5, 3.5, 4.5 lie at -0.25, 0.25, 0.75, 1.25 of the grid. The probabilities
  // of the upper left cell alone are (0.75, 0.75, 0.25, 0) x (0.75, 0.75, 0.25, 0):
  // 0.75 * 0.75 = 0.5625 >= 0.5, 0.75 * 0.25 < 0.5.
  const Tensor masks = torch::tensor({{{1.0F, 0.0F}, {0.0F, 0.0F}}});
  const Tensor boxes = torch::tensor({{1.0F, 1.0F, 5.0F, 5.0F}});
  const std::vector<Rle> pasted = paste_masks(masks, boxes, {6, 7});
  // Columns of 6 pixels: column 0 clear; columns 1 and 2 set at rows 1 and 2; the rest clear.
  EXPECT_EQ(pasted[0].size, (ImageSize{6, 7}));
  EXPECT_EQ(pasted[0].counts, (std::vector<std::uint32_t>{7, 2, 4, 2, 27}));
}

TEST(PasteMasks, FullBoxSetsItsPixelsAndProbabilityAtTheThresholdCounts) {
  const Tensor boxes = torch::tensor({{0.0F, 0.0F, 4.0F, 3.0F}});
  EXPECT_EQ(paste_masks(torch::ones({1, 28, 28}), boxes, {3, 4})[0].counts,
            (std::vector<std::uint32_t>{0, 12}));
  EXPECT_EQ(
      paste_masks(torch::full({1, 1, 1}, 0.5), torch::tensor({{0.0F, 0.0F, 1.0F, 1.0F}}), {1, 1})[0]
          .counts,
      (std::vector<std::uint32_t>{0, 1}));
}

TEST(PasteMasks, NoMasksGiveNoRuns) {
  EXPECT_TRUE(paste_masks(torch::zeros({0, 28, 28}), torch::zeros({0, 4}), {10, 10}).empty());
}

TEST(PasteMasks, EqualsGridSampleOverTheWholeImage) {
  const ImageSize size{90, 130};
  for (const std::int64_t side : {1, 2, 14, 28}) {
    const Tensor masks = test::random_tensor({40, side, side}, 7) * 0.5 + 0.5;
    Tensor boxes = test::random_boxes(40, 90, 3);
    boxes.slice(0, 0, 10) *= 3;                                   // over the border
    boxes.slice(0, 10, 20) = boxes.slice(0, 10, 20) - 50;         // and on the other side
    boxes.slice(0, 20, 25) = boxes.slice(0, 20, 25) * 0.02 + 40;  // smaller than a pixel
    for (const double threshold : {0.5, 0.1, 0.7}) {
      const Tensor expected = naive_paste(masks, boxes, size);
      const Tensor pasted = decode(paste_masks(masks, boxes, size, threshold));
      EXPECT_EQ(wrong_pixels(pasted, expected, threshold), 0) << side << " " << threshold;
      EXPECT_GT(pasted.sum().item<std::int64_t>(), 50);
    }
  }
}

TEST(PasteMasks, HugeBoxesAroundASmallImageEqualGridSample) {
  // Cells of 36 to 30,000 pixels: the search along columns decides.
  const ImageSize size{300, 200};
  const Tensor masks = test::random_tensor({4, 28, 28}, 11) * 0.5 + 0.5;
  const Tensor boxes = torch::tensor({{-400.0F, -300.0F, 600.0F, 700.0F},
                                      {-8000.0F, -9000.0F, 7000.0F, 9000.0F},
                                      {-4e5F, -4e5F, 4e5F, 4e5F},
                                      {-100.0F, -5000.5F, 400.0F, 2000.25F}});
  const Tensor pasted = decode(paste_masks(masks, boxes, size));
  EXPECT_EQ(wrong_pixels(pasted, naive_paste(masks, boxes, size), 0.5), 0);
  EXPECT_GT(pasted.sum().item<std::int64_t>(), 10000);
}

TEST(PasteMasks, BoxesOutsideEmptyOrNotFiniteGiveEmptyMasks) {
  const Tensor boxes = torch::tensor({{-20.0F, -20.0F, -10.0F, -10.0F},
                                      {30.0F, 5.0F, 40.0F, 9.0F},
                                      {5.0F, 5.0F, 5.0F, 9.0F},
                                      {9.0F, 5.0F, 5.0F, 9.0F},
                                      {NAN, 5.0F, 5.0F, 9.0F},
                                      {5.0F, 5.0F, kInf, 9.0F},
                                      {-kInf, 5.0F, kInf, 9.0F},
                                      {-3e38F, -3e38F, 3e38F, 3e38F}});
  for (const Rle& rle : paste_masks(torch::ones({boxes.size(0), 28, 28}), boxes, {20, 25})) {
    EXPECT_EQ(rle.counts, (std::vector<std::uint32_t>{500}));
  }
}

TEST(PasteMasks, PixelsOfNanProbabilityAreNotSet) {
  const Tensor masks = torch::full({1, 28, 28}, NAN);
  const Tensor boxes = torch::tensor({{0.0F, 0.0F, 900.0F, 900.0F}});
  EXPECT_EQ(paste_masks(masks, boxes, {900, 900})[0].counts, (std::vector<std::uint32_t>{810000}));
}

TEST(PasteMasks, RefusesWhatDoesNotFit) {
  const Tensor masks = torch::ones({1, 28, 28}), box = torch::ones({1, 4});
  EXPECT_THROW(paste_masks(masks, torch::ones({2, 4}), {9, 9}), Error);
  EXPECT_THROW(paste_masks(masks.to(torch::kDouble), box, {9, 9}), Error);
  EXPECT_THROW(paste_masks(masks, box, {0, 9}), Error);
  EXPECT_THROW(paste_masks(masks, box, {70000, 70000}), Error);
  EXPECT_THROW(paste_masks(masks, box, {9, 9}, 0.0), Error);
}

TEST(PasteMasksProperty, SameRunsForAnyNumberOfThreads) {
  const Tensor masks = test::random_tensor({33, 28, 28}, 5) * 0.5 + 0.5;
  const Tensor boxes = test::random_boxes(33, 500, 4);
  const int threads = at::get_num_threads();
  std::vector<std::vector<Rle>> runs;
  for (const int count : {1, 4}) {
    at::set_num_threads(count);
    runs.push_back(paste_masks(masks, boxes, {500, 500}));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(runs[0] == runs[1]);
}

TEST(PasteMasksProperty, ThreeHundredMasksOnAHugeImageNeedLittleMemory) {
  const Tensor masks = test::random_tensor({300, 28, 28}, 5) * 0.5 + 0.5;
  const Tensor boxes = test::random_boxes(300, 9000, 4);
  const std::int64_t before = peak_rss_bytes();
  const std::vector<Rle> pasted = paste_masks(masks, boxes, {9000, 12000});
  std::size_t bytes = 0;
  for (const Rle& rle : pasted) {
    bytes += rle.counts.capacity() * sizeof(std::uint32_t);
  }
  // 32 GB as one byte per pixel. Noise as masks has some 20 runs a column, real masks 2.
  EXPECT_LT(bytes, 150e6);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory for a while
  EXPECT_LT(peak_rss_bytes() - before, 2 * static_cast<std::int64_t>(bytes) + 20'000'000);
#endif
}

bool is_paste_case(const nlohmann::json& description) {
  return description.contains("files") && description["files"].contains("paste.npz");
}

TEST(PasteMasksParity, PixelsEqualDetectron2) {
  const auto cases = test::parity_cases(is_paste_case);
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& parity_case : cases) {
    SCOPED_TRACE(parity_case.folder.string());
    const test::Npz arrays = test::read_npz(parity_case.folder / "paste.npz");
    const auto hw = parity_case.description["image_hw"].get<std::vector<std::int64_t>>();
    const Tensor masks = test::to_tensor(arrays.at("masks"));
    const Tensor boxes = test::to_tensor(arrays.at("boxes"));
    const Tensor hard = test::to_tensor(arrays.at("hard")).to(torch::kBool);
    EXPECT_EQ(decode(paste_masks(masks, boxes, {hw[0], hw[1]})).ne(hard).sum().item<int>(), 0);
    // `soft` is the probability in 255ths, rounded down: also every other threshold is tested.
    const Tensor soft = test::to_tensor(arrays.at("soft")).to(torch::kInt);
    for (const int level : {1, 20, 100, 200, 254}) {
      const double threshold = level / 255.0;
      const Tensor pasted = decode(paste_masks(masks, boxes, {hw[0], hw[1]}, threshold));
      EXPECT_LE(pasted.ne(soft >= level).sum().item<int>(), 1) << level;
    }
  }
}

}  // namespace
}  // namespace detforge
