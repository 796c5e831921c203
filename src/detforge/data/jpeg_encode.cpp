#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <string>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/jpeg.h"
#include "detforge/data/jpeg_errors.h"

namespace detforge::jpeg {
namespace {

/// The encoded bytes, in memory that libjpeg has taken with malloc.
struct Buffer {
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  ~Buffer() { std::free(bytes); }
};

void compress(jpeg_compress_struct& info, const Image& image, int quality, Buffer& out) {
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &out.bytes, &out.size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_EXT_BGR;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<std::uint8_t*>(image.row(info.next_scanline));  // libjpeg only reads it
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

std::string encode(const Image& image, int quality) {
  jpeg_compress_struct info{};
  ErrorState errors;
  Buffer buffer;
  info.err = errors.attach();
  const bool done = guarded(errors, [&] { compress(info, image, quality, buffer); });
  jpeg_destroy_compress(&info);
  DETFORGE_CHECK(done,
                 fmt::format("cannot encode a JPEG of {}x{} (height x width): {}", image.height,
                             image.width, errors.message.data()),
                 "choose a smaller picture");
  return {reinterpret_cast<const char*>(buffer.bytes), buffer.size};
}

}  // namespace detforge::jpeg
