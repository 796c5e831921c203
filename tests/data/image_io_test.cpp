#include "detforge/data/image_io.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/timer.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

std::string message_of(const std::string& path, const ImageReadOptions& options = {}) {
  try {
    read_image(path, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A small picture with a different colour in every pixel.
cv::Mat gradient(int height, int width) {
  cv::Mat picture(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      picture.at<cv::Vec3b>(y, x) =
          cv::Vec3b(static_cast<uchar>(x * 2), static_cast<uchar>(y * 2), 77);
    }
  }
  return picture;
}

std::string encode(const std::string& extension, const cv::Mat& picture) {
  std::vector<uchar> bytes;
  cv::imencode(extension, picture, bytes);
  return {bytes.begin(), bytes.end()};
}

/// One directory with one entry: the orientation, in the given byte order.
std::string exif_block(int orientation, bool little) {
  const std::string head = little
                               ? std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18)
                               : std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01", 18);
  const char value = static_cast<char>(orientation);
  const std::string tail = little ? std::string{value, 0, 0, 0} : std::string{0, value, 0, 0};
  return std::string("Exif\0\0", 6) + head + tail + std::string(4, '\0');
}

std::string with_exif(const std::string& jpeg, int orientation, bool little = true) {
  const std::string block = exif_block(orientation, little);
  const std::string marker = {'\xFF', '\xE1', 0, static_cast<char>(block.size() + 2)};
  return jpeg.substr(0, 2) + marker + block + jpeg.substr(2);
}

// --- the awkward files

void expect_figures(const Image& image, const nlohmann::json& entry) {
  ASSERT_EQ(image.width, entry.at("width"));
  ASSERT_EQ(image.height, entry.at("height"));
  if (!entry.contains("mean_rgb")) {
    return;  // damage whose pixels are not defined
  }
  const double tolerance = entry.at("tolerance");
  double sums[3] = {0, 0, 0};
  for (std::size_t i = 0; i < image.bgr.size(); ++i) {
    sums[2 - i % 3] += image.bgr[i];
  }
  for (std::size_t channel = 0; channel < 3; ++channel) {
    // The figures are rounded to 0.01.
    EXPECT_NEAR(sums[channel] / static_cast<double>(image.height * image.width),
                entry["mean_rgb"][channel], tolerance > 0 ? 1.5 : 0.0051);
  }
  for (const auto& sample : entry.value("samples", nlohmann::json::array())) {
    const std::uint8_t* pixel = image.row(sample[1]) + 3 * sample[0].get<int>();
    for (std::size_t channel = 0; channel < 3; ++channel) {
      EXPECT_NEAR(pixel[2 - channel], sample[2 + channel].get<double>(), tolerance) << sample;
    }
  }
}

void check_entry(const nlohmann::json& entry, const std::string& path) {
  const std::string expect = entry.at("expect");
  Image image;
  try {
    image = read_image(path);
  } catch (const Error& error) {
    EXPECT_NE(expect, "decode") << error.what();
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos)
        << "does not name the file: " << error.what();
    return;
  }
  EXPECT_NE(expect, "reject");
  if (expect != "reject" && entry.contains("width")) {
    expect_figures(image, entry);
    EXPECT_EQ(probe_image(path).size, image.size());
  }
}

TEST(AwkwardImages, BehaveAsTheirIndexSays) {
  DETFORGE_REQUIRE_TEST_DATA("awkward");
  const auto folder = test::test_data_dir() / "awkward";
  const test::TemporaryFolder scratch;
  const auto index = nlohmann::json::parse(files::read(folder / "index.json"));
  ASSERT_FALSE(index.empty());
  for (const auto& entry : index) {
    const std::string file = entry.at("file");
    SCOPED_TRACE(file + ": " + entry.at("special").get<std::string>());
    std::filesystem::path path = folder / file;
    if (entry.contains("copy_as")) {
      path = scratch / entry["copy_as"].get<std::string>();
      std::filesystem::copy_file(folder / file, path);
    }
    const Timer timer;
    check_entry(entry, path.string());
    EXPECT_LT(timer.elapsed_s(), 5.0);
  }
}

// --- JPEG equals Pillow

bool is_mapper_case(const nlohmann::json& description) {
  return description.contains("items") && description["files"].contains("mapped.npz");
}

TEST(ImageIoParity, JpegEqualsPillowBitForBit) {
  const auto cases = test::parity_cases(is_mapper_case);
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    std::size_t compared = 0;
    const auto arrays = test::read_npz(parity.folder / "mapped.npz");
    for (std::size_t i = 0; i < parity.description["items"].size(); ++i) {
      const std::string file = parity.description["items"][i]["file"];
      const Image image = read_image((parity.folder / file).string());
      const auto& expected = arrays.at("decoded" + std::to_string(i));
      ASSERT_EQ(expected.shape, (std::vector<std::int64_t>{image.height, image.width, 3}));
      std::size_t different = 0;
      for (std::size_t k = 0; k < image.bgr.size(); ++k) {
        const std::size_t rgb = k - k % 3 + (2 - k % 3);
        different += image.bgr[k] != static_cast<std::uint8_t>(expected.bytes[rgb]);
      }
      EXPECT_EQ(different, 0U) << file;
      compared += image.bgr.size();
    }
    EXPECT_GT(compared, 0U) << parity.name();
  }
}

// --- orientation (FIELD_REPORTS F14)

/// A picture 100 wide and 40 high, black but for a white block at the top left corner.
std::string marked_jpeg() {
  cv::Mat picture(40, 100, CV_8UC3, cv::Scalar(0, 0, 0));
  picture(cv::Rect(0, 0, 16, 16)).setTo(cv::Scalar(255, 255, 255));
  return encode(".jpg", picture);
}

/// Which corner is white: 0 top left, 1 top right, 2 bottom left, 3 bottom right.
int white_corner(const Image& image) {
  const std::int64_t bottom = image.height - 5, right = image.width - 5;
  const int corners[4] = {image.row(4)[12], image.row(4)[3 * right], image.row(bottom)[12],
                          image.row(bottom)[3 * right]};
  return static_cast<int>(std::max_element(corners, corners + 4) - corners);
}

TEST(ExifOrientation, AllEightTurnPixelsAndSizeAlike) {
  // Where the stored top left corner ends up, by the EXIF standard's table.
  const int expected[8] = {0, 1, 3, 2, 0, 1, 3, 2};
  const test::TemporaryFolder folder;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool little : {true, false}) {
      SCOPED_TRACE(orientation);
      const std::string path = (folder / "photo.jpg").string();
      files::write_atomic(path, with_exif(marked_jpeg(), orientation, little));
      const Image image = read_image(path);
      EXPECT_EQ(image.size(), (orientation >= 5 ? ImageSize{100, 40} : ImageSize{40, 100}));
      EXPECT_EQ(white_corner(image), expected[orientation - 1]);
      const ImageInfo info = probe_image(path);
      EXPECT_EQ(info.size, image.size());
      EXPECT_EQ(info.stored, (ImageSize{40, 100}));
      EXPECT_EQ(info.orientation, orientation);
    }
  }
}

TEST(ExifOrientation, CanBeIgnoredForPixelsAndSize) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "photo.jpg").string();
  files::write_atomic(path, with_exif(marked_jpeg(), 6));
  const ImageReadOptions ignore{.apply_orientation = false};
  EXPECT_EQ(read_image(path, ignore).size(), (ImageSize{40, 100}));
  EXPECT_EQ(probe_image(path, ignore).size, (ImageSize{40, 100}));
}

TEST(ExifOrientation, BrokenBlocksCountAsUpright) {
  for (std::size_t keep = 0; keep < 30; ++keep) {
    const std::string whole = exif_block(6, true).substr(0, keep);
    const std::string marker = {'\xFF', '\xE1', 0, static_cast<char>(whole.size() + 2)};
    const std::string jpeg = marked_jpeg();
    const Image image = decode_image(jpeg.substr(0, 2) + marker + whole + jpeg.substr(2), "cut");
    EXPECT_TRUE(image.size() == (ImageSize{40, 100}) || keep >= 26)
        << keep;  // 26: the value is there
  }
  EXPECT_EQ(decode_image(with_exif(marked_jpeg(), 9), "nine").size(), (ImageSize{40, 100}));
}

// --- formats and content (F15, F16, F17)

TEST(ImageFormats, AreToldByContentNotByName) {
  const test::TemporaryFolder folder;
  for (const std::string extension : {".png", ".bmp", ".webp", ".tiff", ".ppm"}) {
    SCOPED_TRACE(extension);
    const std::string path = (folder / "picture.jpg").string();
    files::write_atomic(path, encode(extension, gradient(30, 50)));
    EXPECT_EQ(read_image(path).size(), (ImageSize{30, 50}));
    EXPECT_EQ(probe_image(path).size, (ImageSize{30, 50}));
  }
}

TEST(ImageFormats, SixteenBitsBecomeTheHighByteAndAlphaIsDropped) {
  const cv::Mat grey16(2, 2, CV_16UC1, cv::Scalar(0x12FF));
  EXPECT_EQ(decode_image(encode(".png", grey16), "grey16").bgr,
            std::vector<std::uint8_t>(12, 0x12));
  const cv::Mat transparent(1, 1, CV_8UC4, cv::Scalar(10, 20, 30, 0));
  EXPECT_EQ(decode_image(encode(".png", transparent), "alpha").bgr,
            (std::vector<std::uint8_t>{10, 20, 30}));
}

TEST(BadImages, AreNamedWithWhatWasFound) {
  const test::TemporaryFolder folder;
  const std::string missing = (folder / "missing.jpg").string();
  EXPECT_NE(message_of(missing).find(missing), std::string::npos);
  EXPECT_NE(message_of(folder.path().string()).find(folder.path().string()), std::string::npos);
  const std::string path = (folder / "page.jpg").string();
  files::write_atomic(path, "<!DOCTYPE html><html><body>404</body></html>");
  EXPECT_NE(message_of(path).find("HTML page"), std::string::npos);
  files::write_atomic(path, "");
  EXPECT_NE(message_of(path).find("empty file"), std::string::npos);
  EXPECT_NE(message_of(path).find(path), std::string::npos);
  EXPECT_THROW(probe_image(path), Error);
  EXPECT_THROW(probe_image(missing), Error);
}

TEST(BadImages, EveryCutOfAJpegIsRefusedUnlessTolerant) {
  const std::string jpeg = encode(".jpg", gradient(64, 64));
  for (std::size_t size = 0; size + 2 < jpeg.size(); size += 7) {
    EXPECT_THROW(decode_image(jpeg.substr(0, size), "cut"), Error) << size;
  }
  const std::string most = jpeg.substr(0, jpeg.size() * 6 / 10);
  ImageReadOptions tolerant{.tolerant = true};
  EXPECT_EQ(decode_image(most, "cut", tolerant).size(), (ImageSize{64, 64}));
}

TEST(BadImages, EveryCutOfAPngIsRefused) {
  const std::string png = encode(".png", gradient(20, 20));
  for (std::size_t size = 0; size < png.size(); size += 3) {
    EXPECT_THROW(decode_image(png.substr(0, size), "cut"), Error) << size;
  }
}

TEST(BadImages, ShortPrefixesOfEveryFormatNeverCrash) {
  for (const std::string extension : {".webp", ".bmp", ".tiff", ".ppm"}) {
    const std::string whole = encode(extension, gradient(8, 8));
    for (std::size_t size = 0; size < std::min<std::size_t>(whole.size(), 64); ++size) {
      EXPECT_THROW(decode_image(whole.substr(0, size), "cut"), Error) << extension << " " << size;
    }
  }
}

TEST(BadImages, BmpOf16BitsAPixelIsRefused) {
  std::string bmp = encode(".bmp", gradient(8, 8));
  bmp[28] = 16;
  EXPECT_THROW(decode_image(bmp, "rgb565.bmp"), Error);
}

TEST(BadImages, AboveThePixelLimitAreRefusedByTheHeader) {
  const std::string jpeg = encode(".jpg", gradient(64, 64));
  EXPECT_THROW(decode_image(jpeg, "big", {.max_pixels = 64 * 64 - 1}), Error);
  EXPECT_NO_THROW(decode_image(jpeg, "fits", {.max_pixels = 64 * 64}));
}

}  // namespace
}  // namespace detforge
