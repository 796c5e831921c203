#include "detforge/data/image_write.h"

#include <cmath>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/data/image_io.h"
#include "support/test_data.h"

namespace detforge {
namespace {

Image gradient() {
  Image image{40, 60, {}};
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      image.bgr.insert(image.bgr.end(),
                       {static_cast<std::uint8_t>(4 * x), static_cast<std::uint8_t>(5 * y), 90});
    }
  }
  return image;
}

TEST(WritePng, KeepsEveryPixel) {
  const test::TemporaryFolder folder;
  const auto path = folder / "picture.png";
  write_png(path, gradient());
  EXPECT_EQ(read_image(path.string()).bgr, gradient().bgr);
}

TEST(WriteJpeg, KeepsTheChannelsInOrderAndTheColoursNearly) {
  const test::TemporaryFolder folder;
  const auto path = folder / "new folder" / "picture.jpg";
  write_jpeg(path, gradient(), 95);
  const Image read = read_image(path.string());
  ASSERT_EQ(read.size(), gradient().size());
  double error = 0;
  for (std::size_t i = 0; i < read.bgr.size(); ++i) {
    error += std::abs(static_cast<double>(read.bgr[i]) - static_cast<double>(gradient().bgr[i]));
  }
  EXPECT_LT(error / static_cast<double>(read.bgr.size()), 3);
}

TEST(WriteJpeg, RefusesWhatTheFormatCannotHold) {
  const test::TemporaryFolder folder;
  const Image wide{1, 70000, std::vector<std::uint8_t>(210000)};
  EXPECT_THROW(write_jpeg(folder / "wide.jpg", wide), Error);
  EXPECT_THROW(write_jpeg(folder / "empty.jpg", Image{}), Error);
  EXPECT_THROW(write_png(folder / "empty.png", Image{}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace detforge
