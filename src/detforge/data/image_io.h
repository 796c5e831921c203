#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/structures/image.h"

namespace detforge {

/// How image files become pixels.
struct ImageReadOptions {
  bool apply_orientation =
      true;  ///< turn by the file's EXIF (PNG: also XMP) orientation, as Detectron2 does
  bool tolerant = false;  ///< accept damaged JPEG data: what cannot be decoded comes out grey
  std::int64_t max_pixels = 200'000'000;  ///< larger images are refused before memory is taken
};

/// What the header of an image file says.
struct ImageInfo {
  ImageSize size{};      ///< after turning: what read_image() returns
  ImageSize stored{};    ///< as the pixels lie in the file
  int orientation = 1;   ///< EXIF 1..8; 1 if the file has none or an unreadable one
  std::string format{};  ///< "JPEG", "PNG", "WebP", "BMP", "TIFF" or "PNM"
};

/// Reads an image file of any supported format; the content decides, never the file's name.
///   JPEG: libjpeg-turbo with its default settings, equal to Pillow bit for bit. PNG, WebP, BMP,
///   TIFF, PNM: OpenCV. grey -> three equal channels; palettes are expanded; 16 bits -> the high
///   byte; alpha and transparency are dropped, not blended; CMYK is multiplied out (R = C * K / 255
///   of the inverted channels); colour profiles are ignored; of animations and multi-picture files
///   the first picture. TIFF files are turned by OpenCV itself, apply_orientation or not. BMP files
///   of 16 bits a pixel are refused.
/// Thread-safe. Throws Error naming the file and what was found instead: missing, a folder, empty,
/// not an image (an HTML page, a Git LFS pointer, ...), an unsupported format, too large, truncated
/// or damaged.
Image read_image(const std::string& path, const ImageReadOptions& options = {});

/// As above from memory; `name` stands for the path in messages.
Image decode_image(std::string_view bytes,
                   const std::string& name,
                   const ImageReadOptions& options = {});

/// Size and orientation without decoding: about 0.1 ms for a JPEG file. Throws as read_image() does
/// for files whose header cannot be read; damage behind the header is not noticed. max_pixels is
/// not applied.
ImageInfo probe_image(const std::string& path, const ImageReadOptions& options = {});

/// A header, or why it could not be read.
struct ImageProbe {
  ImageInfo info;
  std::string problem;  ///< empty if `info` is there
};

/// probe_image() of many files, several at a time; one result per path, in order.
std::vector<ImageProbe> probe_images(const std::vector<std::string>& paths,
                                     const ImageReadOptions& options = {});

}  // namespace detforge
