#include "detforge/data/shapes.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/coverage.h"
#include "detforge/data/image_io.h"
#include "detforge/data/shapes_scene.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "support/test_data.h"

namespace detforge {
namespace {

ShapesOptions small(const std::filesystem::path& output) {
  return {.output = output, .train_images = 6, .val_images = 3, .size = {64, 96}, .seed = 4};
}

nlohmann::json annotations(const std::filesystem::path& output, const std::string& split) {
  return nlohmann::json::parse(
      files::read(output / "annotations" / ("instances_" + split + ".json")));
}

// --- drawing

TEST(PolygonCoverage, CountsPartsOfPixels) {
  // A box from (0.5, 1) to (2, 2.25): 1.5 wide, 1.25 high.
  const Coverage coverage = polygon_coverage({0.5, 1, 2, 1, 2, 2.25, 0.5, 2.25}, {4, 3});
  EXPECT_FLOAT_EQ(coverage.at(1, 0), 0.5F);
  EXPECT_FLOAT_EQ(coverage.at(1, 1), 1.0F);
  EXPECT_FLOAT_EQ(coverage.at(2, 0), 0.125F);
  EXPECT_FLOAT_EQ(coverage.at(0, 1), 0.0F);
  EXPECT_FLOAT_EQ(coverage.at(1, 2), 0.0F);
  EXPECT_NEAR(coverage.area(), 1.5 * 1.25, 1e-6);
}

TEST(PolygonCoverage, CutsOffWhatIsOutside) {
  EXPECT_NEAR(polygon_coverage({-5, -5, 50, -5, 50, 50, -5, 50}, {3, 4}).area(), 12, 1e-5);
  EXPECT_EQ(polygon_coverage({10, 10, 12, 10, 12, 12}, {3, 4}).area(), 0);
}

TEST(ShapesSceneProperty, ShapesAreInsideExactAndAtMostHalfHidden) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    Rng rng(9, RngPurpose::kShapes, 0, i);
    const ImageSize size{100, 140};
    const shapes::Scene scene = shapes::make_scene(size, 6, rng);
    ASSERT_GE(scene.shapes.size(), 1U);
    ASSERT_LE(scene.shapes.size(), 6U);
    for (std::size_t k = 0; k < scene.shapes.size(); ++k) {
      const shapes::Shape& shape = scene.shapes[k];
      const Box box = shape.box();
      EXPECT_TRUE(box.x1 >= 0 && box.y1 >= 0 && box.x2 <= 140 && box.y2 <= 100);
      Coverage visible = polygon_coverage(shape.polygon, size);
      EXPECT_NEAR(visible.area(), shape.area(), 0.01 * shape.area());
      for (std::size_t above = k + 1; above < scene.shapes.size(); ++above) {
        const Coverage hides = polygon_coverage(scene.shapes[above].polygon, size);
        for (std::size_t p = 0; p < visible.values.size(); ++p) {
          visible.values[p] *= 1 - std::min(1.0F, hides.values[p]);
        }
      }
      EXPECT_GE(visible.area(), 0.49 * shape.area());
    }
  }
}

TEST(ShapesScene, PaintsEachShapeInItsOwnColours) {
  shapes::Scene scene{{40, 40}, {100, 100, 100}, {}};
  scene.shapes.push_back(
      {.label = 1, .polygon = {10, 10, 30, 10, 30, 30, 10, 30}, .colour = {0, 0, 250}});
  Rng rng(1, RngPurpose::kShapes);
  const Image image = shapes::draw_scene(scene, rng);
  EXPECT_GT(image.row(20)[3 * 20 + 2], 220);
  EXPECT_LT(image.row(20)[3 * 20], 30);
  EXPECT_LT(image.row(3)[3 * 3 + 2], 220);
}

// --- the dataset

TEST(MakeShapes, WritesACocoDatasetWhosePicturesExist) {
  const test::TemporaryFolder folder;
  const auto output = folder / "shapes";
  const ShapesReport report = make_shapes(small(output));
  EXPECT_FALSE(report.already_there);
  EXPECT_EQ(report.images, 9);
  std::int64_t objects = 0;
  for (const std::string split : {"train", "val"}) {
    const auto file = annotations(output, split);
    EXPECT_EQ(file["images"].size(), split == "train" ? 6U : 3U);
    EXPECT_EQ(file["categories"].size(), 4U);
    for (const auto& image : file["images"]) {
      const auto path = output / split / image["file_name"].get<std::string>();
      EXPECT_EQ(read_image(path.string()).size(), (ImageSize{64, 96}));
    }
    for (const auto& annotation : file["annotations"]) {
      const auto box = annotation["bbox"].get<std::vector<double>>();
      const auto polygon = annotation["segmentation"].at(0).get<std::vector<double>>();
      double right = 0, bottom = 0;
      for (std::size_t i = 0; i < polygon.size(); i += 2) {
        right = std::max(right, polygon[i]);
        bottom = std::max(bottom, polygon[i + 1]);
      }
      EXPECT_NEAR(box[0] + box[2], right, 1e-9);
      EXPECT_NEAR(box[1] + box[3], bottom, 1e-9);
      EXPECT_LE(annotation["area"].get<double>(), box[2] * box[3] + 0.01);
      ++objects;
    }
  }
  EXPECT_EQ(objects, report.objects);
}

// The masks of a picture share no pixel; together with what is above, each is its whole outline.
TEST(MakeShapes, RunLengthsAreOfTheVisibleParts) {
  const test::TemporaryFolder folder;
  auto options = small(folder / "shapes");
  options.train_images = 30;
  make_shapes(options);
  const auto outlines = annotations(options.output, "train")["annotations"];
  options.output = folder / "runs";
  options.rle = true;
  make_shapes(options);
  const auto runs = annotations(options.output, "train")["annotations"];
  EXPECT_EQ(files::read(folder / "shapes/train/000005.jpg"),
            files::read(folder / "runs/train/000005.jpg"));
  ASSERT_EQ(runs.size(), outlines.size());
  const auto mask_of = [&](std::size_t i) {
    return Rle{options.size,
               decode_rle_counts(runs[i]["segmentation"]["counts"].get<std::string>())};
  };
  std::size_t covered = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Rle mask = mask_of(i);
    check_rle(mask.counts, mask.size);
    EXPECT_EQ(runs[i]["iscrowd"], 0);
    EXPECT_EQ(runs[i]["area"], rle_area(mask.counts));
    const Box box = rle_box(mask.counts, mask.size.height);
    EXPECT_EQ(runs[i]["bbox"].get<std::vector<double>>(),
              (std::vector<double>{box.x1, box.y1, box.width(), box.height()}));
    const Rle whole =
        polygon_mask(outlines[i]["segmentation"][0].get<std::vector<double>>(), options.size);
    Rle united = mask;
    for (std::size_t above = i + 1;
         above < runs.size() && runs[above]["image_id"] == runs[i]["image_id"]; ++above) {
      EXPECT_EQ(rle_area(merge_masks(std::vector<RleView>{mask, mask_of(above)}, true).counts), 0);
      united = merge_masks(std::vector<RleView>{united, mask_of(above)});
    }
    EXPECT_EQ(merge_masks(std::vector<RleView>{united, whole}), united);
    covered += rle_area(whole.counts) > rle_area(mask.counts) ? 1 : 0;
  }
  EXPECT_GT(covered, 5U);
}

TEST(MakeShapes, SameSeedGivesTheSameBytesAndLongerSetsStartAlike) {
  const test::TemporaryFolder folder;
  make_shapes(small(folder / "a"));
  auto longer = small(folder / "b");
  longer.train_images = 7;
  make_shapes(longer);
  auto other = small(folder / "c");
  other.seed = 5;
  make_shapes(other);
  const auto picture = [&](const char* name) {
    return files::read(folder.path() / name / "train" / "000006.jpg");
  };
  EXPECT_EQ(picture("a"), picture("b"));
  EXPECT_NE(picture("a"), picture("c"));
  EXPECT_NE(files::read(folder / "a" / "train" / "000001.jpg"),
            files::read(folder / "a" / "val" / "000001.jpg"));
}

TEST(MakeShapes, DoesNothingWhereTheDatasetIsComplete) {
  const test::TemporaryFolder folder;
  const auto options = small(folder / "shapes");
  make_shapes(options);
  std::filesystem::remove(options.output / "train" / "000001.jpg");
  EXPECT_TRUE(make_shapes(options).already_there);
  EXPECT_FALSE(std::filesystem::exists(options.output / "train" / "000001.jpg"));
}

TEST(MakeShapes, ContinuesAfterAnInterruption) {
  const test::TemporaryFolder folder;
  const auto options = small(folder / "shapes");
  make_shapes(options);
  auto stamp = nlohmann::ordered_json::parse(files::read(options.output / "shapes.json"));
  stamp["complete"] = false;
  files::write_atomic(options.output / "shapes.json", stamp.dump());
  std::filesystem::remove(options.output / "train" / "000001.jpg");
  EXPECT_FALSE(make_shapes(options).already_there);
  EXPECT_TRUE(std::filesystem::exists(options.output / "train" / "000001.jpg"));
}

TEST(MakeShapes, NeverWritesIntoAnotherDataset) {
  const test::TemporaryFolder folder;
  auto options = small(folder / "shapes");
  make_shapes(options);
  options.seed = 99;
  EXPECT_THROW(make_shapes(options), Error);
  files::write_atomic(folder / "mine" / "holiday.jpg", "x");
  EXPECT_THROW(make_shapes(small(folder / "mine")), Error);
}

TEST(MakeShapes, ImpossibleOptionsAreErrors) {
  const test::TemporaryFolder folder;
  auto options = small(folder / "shapes");
  options.size = {31, 96};
  EXPECT_THROW(make_shapes(options), Error);
  options = small(folder / "shapes");
  options.val_images = 0;
  EXPECT_THROW(make_shapes(options), Error);
}

}  // namespace
}  // namespace detforge
