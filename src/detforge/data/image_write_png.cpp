#include <vector>

#include <opencv2/imgcodecs.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/image_write.h"

namespace detforge {

void write_png(const std::filesystem::path& path, const Image& image) {
  DETFORGE_CHECK(image.height > 0 && image.width > 0,
                 "cannot write an empty picture to " + path.string(), "this is a bug");
  auto* pixels = const_cast<std::uint8_t*>(image.bgr.data());  // OpenCV only reads them
  const cv::Mat view(static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3,
                     pixels);
  std::vector<std::uint8_t> bytes;
  DETFORGE_CHECK(cv::imencode(".png", view, bytes), "cannot encode " + path.string(),
                 "check the installation of OpenCV");
  files::write_atomic(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace detforge
