#include "detforge/data/jpeg.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>
// jerror.h needs what jpeglib.h defines.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "detforge/core/error.h"
#include "detforge/data/exif.h"
#include "detforge/data/image_header.h"
#include "detforge/data/jpeg_errors.h"

namespace detforge::jpeg {
namespace {

constexpr int kApp1 = JPEG_APP0 + 1;

/// `fatal` comes first, so that the address of libjpeg's error manager is this one's.
struct DecodeErrors {
  ErrorState fatal;
  Message damage_message{};  ///< of the first warning that means lost pixels
  bool damaged = false;
};

/// Warnings of bytes to spare between markers cost no pixel; these do.
bool loses_pixels(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC;
}

void on_message(j_common_ptr info, int level) {
  auto& state = *reinterpret_cast<DecodeErrors*>(info->err);
  if (level < 0 && !state.damaged && loses_pixels(info->err->msg_code)) {
    state.damaged = true;
    info->err->format_message(info, state.damage_message.data());
  }
}

void print_nothing(j_common_ptr) {}

[[noreturn]] void fail(const Message& message) {
  throw Error(fmt::format("truncated or damaged JPEG file: {}", message.data()),
              "fetch the file again or remove it from the dataset");
}

/// Pillow's product of two bytes as fractions of 255, rounded.
int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return (product / 256 + product) / 256;
}

/// Inverted CMYK, as Adobe stores it, to BGR by Pillow's formula.
void cmyk_to_bgr(const std::uint8_t* cmyk, std::uint8_t* bgr, std::int64_t width) {
  for (std::int64_t x = 0; x < width; ++x, cmyk += 4, bgr += 3) {
    const int not_black = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int value = not_black - multiply_255(255 - cmyk[channel], not_black);
      bgr[2 - channel] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
    }
  }
}

/// One JPEG file being decoded.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) {
    info_.err = errors_.fatal.attach();
    info_.err->emit_message = on_message;
    info_.err->output_message = print_nothing;
    jpeg_create_decompress(&info_);
    const bool read = guarded(errors_.fatal, [&] {
      jpeg_save_markers(&info_, kApp1, 0xFFFF);
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&info_, TRUE);
    });
    if (!read) {
      jpeg_destroy_decompress(&info_);
      fail(errors_.fatal.message);
    }
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  ImageSize size() const { return {info_.image_height, info_.image_width}; }

  int orientation() const {
    for (jpeg_saved_marker_ptr marker = info_.marker_list; marker != nullptr;
         marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (data.substr(0, 5) == std::string_view("Exif\0", 5)) {
        return exif_orientation(data);  // the first EXIF block decides
      }
    }
    return 1;
  }

  void read_pixels(Image& image, bool tolerant) {
    const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_BGR;
    std::vector<std::uint8_t> row(cmyk ? static_cast<std::size_t>(image.width * 4) : 0);
    const bool read = guarded(errors_.fatal, [&] {
      jpeg_start_decompress(&info_);
      while (info_.output_scanline < info_.output_height) {
        std::uint8_t* target = image.row(info_.output_scanline);
        JSAMPROW into = cmyk ? row.data() : target;
        jpeg_read_scanlines(&info_, &into, 1);
        if (cmyk) {
          cmyk_to_bgr(row.data(), target, image.width);
        }
      }
    });
    if (!read) {
      fail(errors_.fatal.message);
    }
    if (errors_.damaged && !tolerant) {
      fail(errors_.damage_message);
    }
  }

 private:
  jpeg_decompress_struct info_{};
  DecodeErrors errors_;
};

}  // namespace

ImageInfo probe(std::string_view bytes) {
  const Decoder decoder(bytes);
  return {.stored = decoder.size(), .orientation = decoder.orientation(), .format = "JPEG"};
}

Decoded decode(std::string_view bytes, const ImageReadOptions& options) {
  Decoder decoder(bytes);
  check_pixel_count(decoder.size(), options.max_pixels);
  Decoded decoded{.orientation = decoder.orientation()};
  Image& image = decoded.image;
  image.height = decoder.size().height;
  image.width = decoder.size().width;
  image.bgr.resize(static_cast<std::size_t>(image.height * image.width * 3));
  decoder.read_pixels(image, options.tolerant);
  return decoded;
}

}  // namespace detforge::jpeg
