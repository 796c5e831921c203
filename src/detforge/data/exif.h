#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace detforge {

/// The tags of a TIFF file's first directory (and so of an EXIF block, which is a TIFF file) that
/// say how the pixels lie. Tags that are absent, of a wrong type or out of range are 0.
struct TiffTags {
  std::int64_t width = 0, height = 0;
  int orientation = 0;  ///< 1..8
};

/// Reads them from `tiff`, which starts with "II*\0" or "MM\0*". Every offset is checked against
/// the data; nullopt if it is not a TIFF structure. Ref: TIFF 6.0, section 2; Exif 2.3,
/// section 4.6.
std::optional<TiffTags> read_tiff_tags(std::string_view tiff);

/// The orientation (1..8) in an EXIF block, with or without its leading "Exif\0\0". 1 if there is
/// none or it cannot be read: a broken EXIF block does not make an image unusable.
int exif_orientation(std::string_view exif);

/// The orientation in an XMP packet (tiff:Orientation as attribute or element); 1 if it has none.
int xmp_orientation(std::string_view xmp);

}  // namespace detforge
