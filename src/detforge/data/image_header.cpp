#include "detforge/data/image_header.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/byte_reader.h"
#include "detforge/data/exif.h"

namespace detforge {
namespace {

bool starts_with(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic;
}

bool has_at(std::string_view bytes, std::size_t at, std::string_view magic) {
  return at <= bytes.size() && starts_with(bytes.substr(at), magic);
}

[[noreturn]] void fail(std::string_view what) {
  throw Error(fmt::format("truncated or damaged file: {}", what),
              "fetch the file again or remove it from the dataset");
}

std::uint32_t need(std::optional<std::uint32_t> value, std::string_view what) {
  if (!value) {
    fail(fmt::format("it ends before its {}", what));
  }
  return *value;
}

/// "Raw profile type exif", as ImageMagick writes it: a name, a byte count, then the EXIF block in
/// hexadecimal.
int text_profile_orientation(std::string_view text) {
  const std::size_t start = text.find("45786966");  // "Exif"
  if (start == std::string_view::npos) {
    return 1;
  }
  std::string digits, exif;
  std::copy_if(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
               std::back_inserter(digits), [](unsigned char c) { return std::isxdigit(c) != 0; });
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    exif += static_cast<char>(value);
  }
  return exif_orientation(exif);
}

/// The orientation that one PNG chunk states, or 1.
int png_chunk_orientation(std::string_view type, std::string_view data) {
  if (type == "eXIf") {
    return exif_orientation(data);
  }
  if (type == "iTXt" && starts_with(data, "XML:com.adobe.xmp")) {
    return xmp_orientation(data);
  }
  if (type == "tEXt" && starts_with(data, "Raw profile type ")) {
    return text_profile_orientation(data);
  }
  return 1;
}

ImageInfo read_png(std::string_view bytes) {
  constexpr std::size_t kSignature = 8, kOverhead = 12;  // length, type, checksum
  const ByteReader reader(bytes, ByteReader::Order::kBig);
  ImageInfo info{.format = "PNG"};
  info.stored.width = need(reader.u32(kSignature + 8), "size");
  info.stored.height = need(reader.u32(kSignature + 12), "size");
  for (std::size_t at = kSignature; at < bytes.size();) {
    const std::size_t length = need(reader.u32(at), "end chunk");
    const std::string_view type = bytes.substr(at, 8).substr(4);
    if (at + kOverhead + length > bytes.size()) {
      fail(fmt::format("chunk {} at byte {} of {} is cut", type, at, bytes.size()));
    }
    if (type == "IEND") {
      return info;
    }
    if (info.orientation == 1) {
      info.orientation = png_chunk_orientation(type, bytes.substr(at + 8, length));
    }
    at += kOverhead + length;
  }
  fail("the end chunk is missing");
}

/// The EXIF chunk of a RIFF container; data after a broken chunk is not read.
int riff_orientation(std::string_view bytes) {
  const ByteReader reader(bytes, ByteReader::Order::kLittle);
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    const std::size_t length = *reader.u32(at + 4);
    if (bytes.substr(at, 4) == "EXIF") {
      return exif_orientation(bytes.substr(at + 8, length));
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

ImageInfo read_webp(std::string_view bytes) {
  const ByteReader reader(bytes, ByteReader::Order::kLittle);
  ImageInfo info{.orientation = riff_orientation(bytes), .format = "WebP"};
  const std::string_view kind = bytes.substr(12, 4);
  if (kind == "VP8X") {
    info.stored = {need(reader.u24(27), "size") + 1LL, need(reader.u24(24), "size") + 1LL};
  } else if (kind == "VP8L") {
    const std::uint32_t packed = need(reader.u32(21), "size");
    info.stored = {(packed >> 14 & 0x3FFF) + 1, (packed & 0x3FFF) + 1};
  } else if (kind == "VP8 ") {
    info.stored = {need(reader.u16(28), "size") & 0x3FFF, need(reader.u16(26), "size") & 0x3FFF};
  } else {
    fail("no picture in the WebP container");
  }
  return info;
}

ImageInfo read_bmp(std::string_view bytes) {
  const ByteReader reader(bytes, ByteReader::Order::kLittle);
  ImageInfo info{.format = "BMP"};
  constexpr std::uint32_t kOs2Header = 12;
  if (need(reader.u32(14), "header") == kOs2Header) {
    info.stored = {need(reader.u16(20), "size"), need(reader.u16(18), "size")};
  } else {
    const auto height = static_cast<std::int32_t>(need(reader.u32(22), "size"));
    info.stored.height =
        std::abs(static_cast<std::int64_t>(height));  // negative: rows from the top
    info.stored.width = static_cast<std::int32_t>(need(reader.u32(18), "size"));
    // OpenCV would leave 248 as the brightest value.
    DETFORGE_CHECK(need(reader.u16(28), "depth") != 16,
                   "BMP file with 16 bits a pixel, which is not supported", "convert it to PNG");
  }
  return info;
}

ImageInfo read_tiff(std::string_view bytes) {
  const auto tags = read_tiff_tags(bytes);
  if (!tags) {
    fail("its directory cannot be read");
  }
  return {.stored = {tags->height, tags->width},
          .orientation = std::max(1, tags->orientation),
          .format = "TIFF"};
}

/// "P6 640 480 255": numbers between white space and comments.
ImageInfo read_pnm(std::string_view bytes) {
  std::size_t at = 2;
  const auto number = [&] {
    while (at < bytes.size() &&
           (std::isspace(static_cast<unsigned char>(bytes[at])) != 0 || bytes[at] == '#')) {
      at = bytes[at] == '#' ? std::min(bytes.find('\n', at), bytes.size()) : at + 1;
    }
    std::int64_t value = 0;
    const auto result = std::from_chars(bytes.data() + at, bytes.data() + bytes.size(), value);
    if (result.ec != std::errc()) {
      fail("its size cannot be read");
    }
    at = static_cast<std::size_t>(result.ptr - bytes.data());
    return value;
  };
  ImageInfo info{.format = "PNM"};
  info.stored.width = number();
  info.stored.height = number();
  return info;
}

bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char c) { return c >= 0x20 || std::isspace(c) != 0; });
}

}  // namespace

void check_pixel_count(ImageSize size, std::int64_t max_pixels) {
  const std::string found =
      fmt::format("the file says {} x {} pixels (width x height)", size.width, size.height);
  DETFORGE_CHECK(size.width > 0 && size.height > 0, "impossible image size: " + found,
                 "the file is damaged: fetch it again or remove it from the dataset");
  DETFORGE_CHECK(size.height <= max_pixels / size.width,
                 fmt::format("image too large: {}, the limit is {} pixels", found, max_pixels),
                 "remove the file if it is no real image, else cut it into tiles");
}

ImageFormat detect_format(std::string_view bytes) {
  if (starts_with(bytes, "\xFF\xD8")) {
    return ImageFormat::kJpeg;
  }
  if (starts_with(bytes, "\x89PNG\r\n\x1A\n")) {
    return ImageFormat::kPng;
  }
  if (starts_with(bytes, "RIFF") && has_at(bytes, 8, "WEBP")) {
    return ImageFormat::kWebp;
  }
  if (starts_with(bytes, "BM")) {
    return ImageFormat::kBmp;
  }
  if (starts_with(bytes, std::string_view("II*\0", 4)) ||
      starts_with(bytes, std::string_view("MM\0*", 4))) {
    return ImageFormat::kTiff;
  }
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
      std::isspace(static_cast<unsigned char>(bytes[2])) != 0) {
    return ImageFormat::kPnm;
  }
  return ImageFormat::kUnsupported;
}

ImageFormat require_format(std::string_view bytes) {
  const ImageFormat format = detect_format(bytes);
  DETFORGE_CHECK(
      format != ImageFormat::kUnsupported,
      "not an image that can be read: found " + describe_content(bytes),
      "use JPEG, PNG, WebP, BMP, TIFF or PNM; fetch the file again or remove it from the dataset");
  return format;
}

std::string describe_content(std::string_view bytes) {
  std::string head(bytes.substr(0, 512));
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (bytes.empty()) {
    return "an empty file";
  }
  if (starts_with(bytes, "GIF8")) {
    return "a GIF image, which is not supported";
  }
  if (has_at(bytes, 4, "ftyp")) {
    return "a HEIF, AVIF or MP4 file, which is not supported";
  }
  if (head.find("<html") != std::string::npos || head.find("<!doctype") != std::string::npos) {
    return "an HTML page";
  }
  if (starts_with(bytes, "version https://git-lfs")) {
    return "a Git LFS pointer; the file itself was never fetched (git lfs pull)";
  }
  if (bytes.find_first_not_of('\0') == std::string_view::npos) {
    return fmt::format("{} zero bytes", bytes.size());
  }
  if (is_text(bytes.substr(0, 512))) {
    return fmt::format("text: \"{}\"",
                       bytes.substr(0, std::min<std::size_t>(40, bytes.find_first_of("\r\n"))));
  }
  return fmt::format("unknown data ({} bytes)", bytes.size());
}

ImageInfo read_image_header(std::string_view bytes, ImageFormat format) {
  switch (format) {
    case ImageFormat::kPng:
      return read_png(bytes);
    case ImageFormat::kWebp:
      return read_webp(bytes);
    case ImageFormat::kBmp:
      return read_bmp(bytes);
    case ImageFormat::kTiff:
      return read_tiff(bytes);
    case ImageFormat::kPnm:
      return read_pnm(bytes);
    default:
      throw Error("no header reader for this format", "this is a bug");
  }
}

}  // namespace detforge
