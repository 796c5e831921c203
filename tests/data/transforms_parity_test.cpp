// Transforms against Detectron2's DatasetMapper.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/data/image_io.h"
#include "detforge/data/transform_pipeline.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using Flip = TransformPipeline::Flip;

/// A black image with these boxes.
Sample sample_with(ImageSize size, const std::vector<Box>& boxes) {
  Sample sample;
  sample.image = {
      size.height, size.width,
      std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3))};
  for (const Box& box : boxes) {
    Instance instance;
    instance.box = box;
    sample.instances.push_back(std::move(instance));
  }
  return sample;
}

Rng any_rng() {
  return Rng(1, RngPurpose::kAugment);
}

bool is_mapper_case(const nlohmann::json& description) {
  return description.contains("items") && description["files"].contains("mapped.npz");
}

Sample read_item(const std::filesystem::path& folder, const nlohmann::json& item) {
  Sample sample;
  sample.image = read_image((folder / item.at("file").get<std::string>()).string());
  for (const auto& annotation : item.at("annotations")) {
    if (annotation.at("iscrowd") != 0) {
      continue;
    }
    // Detectron2 turns x, y, w, h into corners in float32 (DetForge's reader in double); all that
    // follows is equal.
    const auto xywh = annotation.at("bbox").get<std::vector<float>>();
    Instance instance;
    instance.box = {xywh[0], xywh[1], xywh[0] + xywh[2], xywh[1] + xywh[3]};
    instance.label = annotation.at("category_id");
    instance.segmentation.polygons =
        annotation.at("segmentation").get<std::vector<std::vector<double>>>();
    sample.instances.push_back(std::move(instance));
  }
  return sample;
}

void expect_equal_pixels(const Image& image, const test::NpyArray& expected) {
  ASSERT_EQ(expected.shape, (std::vector<std::int64_t>{3, image.height, image.width}));
  const auto plane = static_cast<std::size_t>(image.height * image.width);
  std::size_t different = 0;
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      different += image.bgr[3 * i + channel] !=
                   static_cast<std::uint8_t>(expected.bytes[channel * plane + i]);
    }
  }
  EXPECT_EQ(different, 0U);
}

void expect_equal_instances(const Sample& sample,
                            const test::Npz& arrays,
                            const std::string& suffix) {
  const auto boxes = arrays.at("boxes" + suffix).to_double();
  const auto labels = arrays.at("classes" + suffix).to_i64();
  ASSERT_EQ(sample.instances.size(), labels.size());
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const Instance& instance = sample.instances[k];
    EXPECT_EQ(instance.label, labels[k]);
    const double box[4] = {instance.box.x1, instance.box.y1, instance.box.x2, instance.box.y2};
    for (std::size_t i = 0; i < 4; ++i) {
      // Detectron2 turns x, y, w, h into corners in float32, we in double: a few units in the last
      // place.
      EXPECT_FLOAT_EQ(static_cast<float>(box[i]), static_cast<float>(boxes[4 * k + i]));
    }
    EXPECT_EQ(instance.segmentation.polygons.at(0),
              arrays.at("poly" + suffix + "_" + std::to_string(k)).to_double());
  }
}

bool is_resize_case(const nlohmann::json& description) {
  return description.contains("files") && description["files"].contains("resize.npz");
}

std::vector<Box> to_boxes(const test::NpyArray& array) {
  const auto values = array.to_double();
  std::vector<Box> boxes;
  for (std::size_t i = 0; i + 3 < values.size(); i += 4) {
    boxes.push_back({values[i], values[i + 1], values[i + 2], values[i + 3]});
  }
  return boxes;
}

std::vector<Box> boxes_of(const Sample& sample) {
  std::vector<Box> boxes;
  for (const Instance& instance : sample.instances) {
    boxes.push_back(instance.box);
  }
  return boxes;
}

TEST(TransformsParity, BoxesEqualDetectron2UnderResizeAndFlip) {
  const auto cases = test::parity_cases(is_resize_case);
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    const auto arrays = test::read_npz(parity.folder / "resize.npz");
    std::size_t resized_boxes = 0, flipped_boxes = 0;
    for (int i = 0; arrays.contains("r" + std::to_string(i) + "/boxes_in"); ++i) {
      const std::string prefix = "r" + std::to_string(i);
      const auto &in = arrays.at(prefix + "/in").shape, &out = arrays.at(prefix + "/out").shape;
      const Sample before = sample_with({in[0], in[1]}, to_boxes(arrays.at(prefix + "/boxes_in")));
      Rng rng = any_rng();
      Sample resized = before, flipped = before;
      ResizeShortestEdge(
          {.short_edges = {std::min(out[0], out[1])}, .max_size = std::max(out[0], out[1])})
          .apply(resized, rng);
      if (resized.image.size() ==
          ImageSize{out[0], out[1]}) {  // some cases do not keep the aspect ratio
        EXPECT_EQ(boxes_of(resized), to_boxes(arrays.at(prefix + "/boxes_out"))) << prefix;
        resized_boxes += resized.instances.size();
      }
      RandomFlip(RandomFlip::Direction::kHorizontal, 1.0).apply(flipped, rng);
      EXPECT_EQ(boxes_of(flipped), to_boxes(arrays.at(prefix + "/boxes_hflip"))) << prefix;
      flipped_boxes += flipped.instances.size();
    }
    EXPECT_GT(resized_boxes, 0U);
    EXPECT_GT(flipped_boxes, 0U);
  }
}

TEST(TransformPipelineParity, EqualsDatasetMapperInPixelsBoxesAndPolygons) {
  const auto cases = test::parity_cases(is_mapper_case);
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    const auto arrays = test::read_npz(parity.folder / "mapped.npz");
    const auto& config = parity.description["config"];
    std::size_t compared = 0;
    for (std::size_t i = 0; i < parity.description["items"].size(); ++i) {
      for (const int flip : {0, 1}) {
        SCOPED_TRACE(parity.name() + " item " + std::to_string(i) + " flip " +
                     std::to_string(flip));
        const TransformPipeline pipeline({.min_sizes = config.at("INPUT.MIN_SIZE_TRAIN"),
                                          .max_size = config.at("INPUT.MAX_SIZE_TRAIN"),
                                          .flip = flip == 1 ? Flip::kHorizontal : Flip::kNone,
                                          .flip_probability = 1.0});
        Sample sample = read_item(parity.folder, parity.description["items"][i]);
        Rng rng = any_rng();
        pipeline.apply(sample, rng);
        const std::string suffix = std::to_string(i) + "_flip" + std::to_string(flip);
        expect_equal_pixels(sample.image, arrays.at("image" + suffix));
        expect_equal_instances(sample, arrays, suffix);
        compared += sample.instances.size();
      }
    }
    EXPECT_GT(compared, 0U) << parity.name();
  }
}

}  // namespace
}  // namespace detforge
