#include "detforge/data/image_write.h"

#include <vector>

#include <opencv2/imgcodecs.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge {
namespace {

void write(const std::filesystem::path& path,
           const Image& image,
           const char* extension,
           const std::vector<int>& parameters) {
  DETFORGE_CHECK(image.height > 0 && image.width > 0,
                 "cannot write an empty picture to " + path.string(), "this is a bug");
  // OpenCV only reads the pixels.
  auto* pixels = const_cast<std::uint8_t*>(image.bgr.data());
  const cv::Mat view(static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3,
                     pixels);
  std::vector<std::uint8_t> bytes;
  DETFORGE_CHECK(cv::imencode(extension, view, bytes, parameters), "cannot encode " + path.string(),
                 "check the installation of OpenCV");
  files::write_atomic(path,
                      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

void write_jpeg(const std::filesystem::path& path, const Image& image, int quality) {
  write(path, image, ".jpg", {cv::IMWRITE_JPEG_QUALITY, quality});
}

void write_png(const std::filesystem::path& path, const Image& image) {
  write(path, image, ".png", {});
}

}  // namespace detforge
