#pragma once

#include <string>
#include <string_view>

#include "detforge/data/image_io.h"

namespace detforge {

/// Container formats told apart by their first bytes.
enum class ImageFormat { kJpeg, kPng, kWebp, kBmp, kTiff, kPnm, kUnsupported };

/// By magic bytes alone.
ImageFormat detect_format(std::string_view bytes);

/// As above; throws Error saying what was found instead if it is no image that can be read.
ImageFormat require_format(std::string_view bytes);

/// For messages: what data that is none of our formats seems to be ("an HTML page", "a GIF image",
/// "only zero bytes").
std::string describe_content(std::string_view bytes);

/// Stored size and orientation of PNG, WebP, BMP, TIFF and PNM data, `size` not yet turned. Throws
/// Error if the header is cut or says an impossible size, and for PNG data if a chunk is cut (a
/// truncated file).
ImageInfo read_image_header(std::string_view bytes, ImageFormat format);

/// Throws Error if a side is not positive, or for more pixels than allowed: called before memory is
/// taken.
void check_pixel_count(ImageSize size, std::int64_t max_pixels);

}  // namespace detforge
