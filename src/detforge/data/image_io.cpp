#include "detforge/data/image_io.h"

#include <algorithm>
#include <fstream>
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

/// Enough for the header of nearly every JPEG file; the rest is read only if it is not.
constexpr std::size_t kProbeBytes = 65536;

ImageFormat require_format(std::string_view bytes) {
  const ImageFormat format = detect_format(bytes);
  DETFORGE_CHECK(
      format != ImageFormat::kUnsupported,
      "not an image that can be read: found " + describe_content(bytes),
      "use JPEG, PNG, WebP, BMP, TIFF or PNM; fetch the file again or remove it from the dataset");
  return format;
}

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

std::string read_prefix(const std::string& path) {
  std::string prefix(kProbeBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(prefix.data(), static_cast<std::streamsize>(prefix.size()));
  prefix.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return prefix;
}

ImageInfo probe_bytes(std::string_view bytes) {
  const ImageFormat format = require_format(bytes);
  return format == ImageFormat::kJpeg ? jpeg::probe(bytes) : read_image_header(bytes, format);
}

/// JPEG headers come first in the file; of other formats the orientation may stand at the end.
ImageInfo probe_file(const std::string& path) {
  const std::string prefix = read_prefix(path);
  if (detect_format(prefix) == ImageFormat::kJpeg) {
    try {
      return jpeg::probe(prefix);
    } catch (const Error&) {
      if (prefix.size() < kProbeBytes) {
        throw;
      }
    }
  }
  return probe_bytes(files::read(path));
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

ImageInfo probe_image(const std::string& path, const ImageReadOptions& options) {
  try {
    ImageInfo info = probe_file(path);
    const bool turned = options.apply_orientation || info.format == "TIFF";
    info.size = turned ? turned_size(info.stored, info.orientation) : info.stored;
    return info;
  } catch (Error& error) {
    if (error.where().find(path) == std::string::npos) {  // files::read names it already
      error.add_where(path);
    }
    throw;
  }
}

}  // namespace detforge
