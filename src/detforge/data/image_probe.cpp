// The part of image_io.h that reads headers only. It needs no OpenCV, which keeps the slow image
// libraries out of programs that decode nothing.
#include <algorithm>
#include <fstream>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/image_header.h"
#include "detforge/data/image_io.h"
#include "detforge/data/jpeg.h"
#include "detforge/data/orientation.h"
#include "detforge/data/parallel.h"

namespace detforge {
namespace {

/// Enough for the header of nearly every JPEG file; the rest is read only if it is not.
constexpr std::size_t kProbeBytes = 65536;

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

std::vector<ImageProbe> probe_images(const std::vector<std::string>& paths,
                                     const ImageReadOptions& options) {
  std::vector<ImageProbe> probes(paths.size());
  for_each_parallel(paths.size(), [&](std::size_t i) {
    try {
      probes[i].info = probe_image(paths[i], options);
    } catch (const Error& error) {
      probes[i].problem = error.message();
    }
  });
  return probes;
}

}  // namespace detforge
