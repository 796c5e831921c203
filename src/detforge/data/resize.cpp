#include "detforge/data/resize.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/resize_kernels.h"

namespace detforge {
namespace {

using resize_detail::AxisWeights;
using resize_detail::Kernels;

/// The last few rows after the horizontal pass: both passes run in the cache, without a whole image
/// between.
class RowRing {
 public:
  RowRing(const Image& image, std::int64_t out_width, std::int64_t rows, Kernels& kernels)
      : image_(image),
        kernels_(kernels),
        resampled_(out_width != image.width),
        row_bytes_(out_width * 3 + Kernels::kSpareBytes),
        rows_(rows),
        storage_(static_cast<std::size_t>(resampled_ ? rows * row_bytes_ : 0)) {}

  /// Row y. Rows are asked for in runs of at most `rows`, each starting no earlier than the run
  /// before.
  const std::uint8_t* row(std::int64_t y) {
    if (!resampled_) {
      return image_.row(y);
    }
    std::uint8_t* slot = storage_.data() + y % rows_ * row_bytes_;
    if (y >= done_) {
      kernels_.row(image_.row(y), slot);
      done_ = y + 1;
    }
    return slot;
  }

 private:
  const Image& image_;
  Kernels& kernels_;
  bool resampled_;
  std::int64_t row_bytes_, rows_, done_ = 0;
  std::vector<std::uint8_t> storage_;
};

void check_sizes(ImageSize from, ImageSize to) {
  DETFORGE_CHECK(to.height > 0 && to.width > 0 && from.height > 0 && from.width > 0,
                 fmt::format("cannot resize {}x{} to {}x{} (height x width)", from.height,
                             from.width, to.height, to.width),
                 "sizes must be positive");
}

Image resample(const Image& image, ImageSize size, bool portable) {
  check_sizes(image.size(), size);
  const AxisWeights x = resize_detail::triangle_weights(image.width, size.width);
  const AxisWeights y = resize_detail::triangle_weights(image.height, size.height);
  auto kernels = portable ? nullptr : resize_detail::make_avx2_kernels(x, y, image.width);
  if (kernels == nullptr) {
    kernels = resize_detail::make_portable_kernels(x, y);
  }
  const std::int64_t bytes = size.width * 3;
  RowRing ring(image, size.width, y.most, *kernels);
  Image out{size.height, size.width,
            std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * bytes))};
  std::vector<const std::uint8_t*> window(static_cast<std::size_t>(y.most));
  for (std::int64_t row = 0; row < size.height; ++row) {
    if (size.height == image.height) {  // Pillow does not filter an axis that keeps its size
      std::copy_n(ring.row(row), bytes, out.row(row));
      continue;
    }
    const auto index = static_cast<std::size_t>(row);
    for (std::int64_t k = 0; k < y.count[index]; ++k) {
      window[static_cast<std::size_t>(k)] = ring.row(y.first[index] + k);
    }
    kernels->column(window.data(), out.row(row), row, bytes);
  }
  return out;
}

}  // namespace

Image resize_detail::resize_bilinear_portable(const Image& image, ImageSize size) {
  return resample(image, size, true);
}

Image resize_bilinear(const Image& image, ImageSize size) {
  return resample(image, size, false);
}

Image resize_image(const Image& image, ImageSize size, Interpolation interpolation) {
  return interpolation == Interpolation::kOpenCv ? resize_bilinear_opencv(image, size)
                                                 : resize_bilinear(image, size);
}

std::vector<std::int64_t> nearest_sources(std::int64_t in, std::int64_t out) {
  std::vector<std::int64_t> sources(static_cast<std::size_t>(out));
  const double step = static_cast<double>(in) / static_cast<double>(out);
  // Pillow adds the step up instead of multiplying; its rounding decides which side a tie falls to.
  double at = step * 0.5;
  for (auto& source : sources) {
    source = std::min(in - 1, static_cast<std::int64_t>(at));
    at += step;
  }
  return sources;
}

LabelMap resize_nearest(const LabelMap& map, ImageSize size) {
  check_sizes({map.height, map.width}, size);
  const auto rows = nearest_sources(map.height, size.height);
  const auto columns = nearest_sources(map.width, size.width);
  LabelMap out{size.height, size.width, {}};
  out.values.reserve(static_cast<std::size_t>(size.height * size.width));
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) {
      out.values.push_back(map.values[static_cast<std::size_t>(row * map.width + column)]);
    }
  }
  return out;
}

ImageSize shortest_edge_size(ImageSize size, std::int64_t short_edge, std::int64_t max_size) {
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const auto edge = static_cast<double>(short_edge), limit = static_cast<double>(max_size);
  const double scale = edge / std::min(height, width);
  double new_height = height < width ? edge : scale * height;
  double new_width = height < width ? scale * width : edge;
  const double longest = std::max(new_height, new_width);
  if (longest > limit) {
    const double shrink = limit / longest;
    new_height *= shrink;
    new_width *= shrink;
  }
  const auto rounded = [](double x) {
    return std::max<std::int64_t>(static_cast<std::int64_t>(x + 0.5), 1);
  };
  return {rounded(new_height), rounded(new_width)};
}

}  // namespace detforge
