#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/jpeg.h"

namespace detforge::jpeg {
namespace {

/// What libjpeg calls back. `manager` comes first, so that its address is the state's.
struct ErrorState {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto& state = *reinterpret_cast<ErrorState*>(info->err);
  info->err->format_message(info, state.message.data());
  std::longjmp(state.jump, 1);
}

/// The encoded bytes, in memory that libjpeg has taken with malloc.
struct Buffer {
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  ~Buffer() { std::free(bytes); }
};

/// False if libjpeg gave up. Owns nothing that needs a destructor, because libjpeg reports errors
/// by longjmp.
bool compress(
    jpeg_compress_struct& info, ErrorState& errors, const Image& image, int quality, Buffer& out) {
  if (setjmp(errors.jump) != 0) {  // NOLINT(cert-err52-cpp): libjpeg's way to report errors
    return false;
  }
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
  return true;
}

}  // namespace

std::string encode(const Image& image, int quality) {
  jpeg_compress_struct info{};
  ErrorState errors;
  Buffer buffer;
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  const bool done = compress(info, errors, image, quality, buffer);
  jpeg_destroy_compress(&info);
  DETFORGE_CHECK(done,
                 fmt::format("cannot encode a JPEG of {}x{} (height x width): {}", image.height,
                             image.width, errors.message.data()),
                 "choose a smaller picture");
  return {reinterpret_cast<const char*>(buffer.bytes), buffer.size};
}

}  // namespace detforge::jpeg
