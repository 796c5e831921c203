#include "detforge/data/image_io.h"

#include <utility>

#include <fmt/format.h>
#include <opencv2/imgcodecs.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/image_header.h"
#include "detforge/data/jpeg.h"
#include "detforge/data/orientation.h"

namespace detforge {
namespace {

Image decode_with_opencv(std::string_view bytes, const ImageInfo& info) {
  cv::Mat decoded;
  try {
    const cv::Mat data(1, static_cast<int>(bytes.size()), CV_8UC1, const_cast<char*>(bytes.data()));
    decoded = cv::imdecode(data, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception& error) {
    throw Error(fmt::format("{} data cannot be decoded: {}", info.format, error.err),
                "convert the file to JPEG or PNG");
  }
  DETFORGE_CHECK(!decoded.empty(), fmt::format("truncated or damaged {} file", info.format),
                 "fetch the file again or remove it from the dataset");
  Image image{decoded.rows, decoded.cols, {}};
  image.bgr.reserve(static_cast<std::size_t>(image.height * image.width * 3));
  for (int y = 0; y < decoded.rows; ++y) {
    const std::uint8_t* row = decoded.ptr<std::uint8_t>(y);
    image.bgr.insert(image.bgr.end(), row, row + 3 * image.width);
  }
  return image;
}

}  // namespace

Image decode_image(std::string_view bytes,
                   const std::string& name,
                   const ImageReadOptions& options) {
  try {
    const ImageFormat format = require_format(bytes);
    if (format == ImageFormat::kJpeg) {
      auto [image, orientation] = jpeg::decode(bytes, options);
      return options.apply_orientation ? turn_upright(std::move(image), orientation)
                                       : std::move(image);
    }
    const ImageInfo info = read_image_header(bytes, format);
    check_pixel_count(info.stored, options.max_pixels);
    Image image = decode_with_opencv(bytes, info);
    const bool turn = options.apply_orientation && format != ImageFormat::kTiff;
    return turn ? turn_upright(std::move(image), info.orientation) : image;
  } catch (Error& error) {
    error.add_where(name);
    throw;
  }
}

Image read_image(const std::string& path, const ImageReadOptions& options) {
  return decode_image(files::read(path), path, options);
}

}  // namespace detforge
