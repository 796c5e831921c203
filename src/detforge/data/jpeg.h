#pragma once

#include <string>
#include <string_view>

#include "detforge/data/image_io.h"

namespace detforge::jpeg {

/// Pixels as they lie in the file, and how to turn them.
struct Decoded {
  Image image{};
  int orientation = 1;  ///< EXIF 1..8
};

/// Stored size and orientation from the header alone; `size` is not yet turned. Throws Error if the
/// header is not whole.
ImageInfo probe(std::string_view bytes);

/// Decodes with libjpeg-turbo's defaults (accurate DCT, smooth upsampling), which is what Pillow
/// uses. Throws Error if the image is larger than options.max_pixels, of an unsupported kind (12
/// bits a sample), or damaged: in pixels that is only an error unless options.tolerant.
Decoded decode(std::string_view bytes, const ImageReadOptions& options);

/// Encodes with libjpeg-turbo's defaults (4:2:0). Throws Error if the encoder fails (a side above
/// 65500).
std::string encode(const Image& image, int quality);

}  // namespace detforge::jpeg
