#include "detforge/data/exif.h"

#include "detforge/data/byte_reader.h"

namespace detforge {
namespace {

constexpr std::uint64_t kImageWidth = 0x0100, kImageLength = 0x0101, kOrientation = 0x0112;
constexpr std::uint64_t kTypeShort = 3, kTypeLong = 4;
constexpr std::size_t kEntryBytes = 12;

/// The value of a directory entry that holds one SHORT or LONG; 0 for anything else.
std::int64_t entry_value(const ByteReader& bytes, std::size_t entry) {
  const std::uint64_t type = bytes.u16(entry + 2).value_or(0);
  if (bytes.u32(entry + 4).value_or(0) != 1) {
    return 0;
  }
  if (type == kTypeShort) {
    return static_cast<std::int64_t>(bytes.u16(entry + 8).value_or(0));
  }
  return type == kTypeLong ? static_cast<std::int64_t>(bytes.u32(entry + 8).value_or(0)) : 0;
}

int valid_orientation(std::int64_t value) {
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
}

}  // namespace

std::optional<TiffTags> read_tiff_tags(std::string_view tiff) {
  const bool little = tiff.substr(0, 4) == std::string_view("II*\0", 4);
  if (!little && tiff.substr(0, 4) != std::string_view("MM\0*", 4)) {
    return std::nullopt;
  }
  const ByteReader bytes(tiff, little ? ByteReader::Order::kLittle : ByteReader::Order::kBig);
  const auto directory = bytes.u32(4);
  const auto entries = directory ? bytes.u16(*directory) : std::nullopt;
  if (!entries) {
    return std::nullopt;
  }
  TiffTags tags;
  for (std::size_t i = 0; i < *entries; ++i) {
    const std::size_t entry = *directory + 2 + i * kEntryBytes;
    const auto tag = bytes.u16(entry);
    if (!tag) {
      break;
    }
    if (*tag == kImageWidth) {
      tags.width = entry_value(bytes, entry);
    } else if (*tag == kImageLength) {
      tags.height = entry_value(bytes, entry);
    } else if (*tag == kOrientation) {
      tags.orientation = valid_orientation(entry_value(bytes, entry));
    }
  }
  return tags;
}

int exif_orientation(std::string_view exif) {
  constexpr std::string_view prefix("Exif\0\0", 6);
  if (exif.substr(0, prefix.size()) == prefix) {
    exif.remove_prefix(prefix.size());
  }
  const auto tags = read_tiff_tags(exif);
  return tags && tags->orientation != 0 ? tags->orientation : 1;
}

int xmp_orientation(std::string_view xmp) {
  constexpr std::string_view key = "tiff:Orientation";
  const std::size_t at = xmp.find(key);
  if (at == std::string_view::npos) {
    return 1;
  }
  // <rdf:Description tiff:Orientation="3"/> or <tiff:Orientation>3</tiff:Orientation>
  const std::size_t digit = xmp.find_first_not_of("=\"'> ", at + key.size());
  if (digit == std::string_view::npos) {
    return 1;
  }
  const int value = valid_orientation(xmp[digit] - '0');
  return value != 0 ? value : 1;
}

}  // namespace detforge
