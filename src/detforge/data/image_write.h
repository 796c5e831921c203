#pragma once

#include <filesystem>

#include "detforge/structures/image.h"

namespace detforge {

/// Writes a picture as JPEG or PNG, atomically (core/files). Missing folders are made.
/// Throws Error if the image is empty or the file cannot be written.
void write_jpeg(const std::filesystem::path& path, const Image& image, int quality = 92);
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace detforge
