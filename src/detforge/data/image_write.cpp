#include "detforge/data/image_write.h"

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/jpeg.h"

// Apart from PNG, so that a program which writes only JPEG does not load OpenCV.
namespace detforge {

void write_jpeg(const std::filesystem::path& path, const Image& image, int quality) {
  try {
    files::write_atomic(path, jpeg::encode(image, quality));
  } catch (Error& error) {
    error.add_where(path.string());
    throw;
  }
}

}  // namespace detforge
