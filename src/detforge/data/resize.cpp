#include "detforge/data/resize.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/resize_kernels.h"

namespace detforge {
namespace resize_detail {

AxisWeights triangle_weights(std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(scale, 1.0);
  AxisWeights axis;
  axis.taps = static_cast<std::int64_t>(std::ceil(support)) * 2 + 2;
  axis.first.resize(static_cast<std::size_t>(out));
  axis.count.resize(static_cast<std::size_t>(out));
  axis.weights.assign(static_cast<std::size_t>(out * axis.taps), 0);
  std::vector<double> exact(static_cast<std::size_t>(axis.taps));
  for (std::int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const auto last = std::min(in, static_cast<std::int64_t>(center + support + 0.5));
    double sum = 0;
    for (std::int64_t k = 0; k < last - first; ++k) {
      const double distance = (static_cast<double>(k + first) - center + 0.5) * (1.0 / support);
      exact[static_cast<std::size_t>(k)] = std::max(0.0, 1.0 - std::abs(distance));
      sum += exact[static_cast<std::size_t>(k)];
    }
    std::int32_t* weights = axis.weights.data() + i * axis.taps;
    for (std::int64_t k = 0; k < last - first; ++k) {
      const double share = sum != 0 ? exact[static_cast<std::size_t>(k)] / sum : 0.0;
      weights[k] = static_cast<std::int32_t>(0.5 + share * (1 << kPrecisionBits));
    }
    axis.first[static_cast<std::size_t>(i)] = first;
    axis.count[static_cast<std::size_t>(i)] = last - first;
  }
  return axis;
}

namespace {

constexpr std::int32_t kHalf = 1 << (kPrecisionBits - 1);

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

}  // namespace

void resample_rows_portable(const RowsView& view, const AxisWeights& axis) {
  for (std::int64_t y = 0; y < view.rows; ++y) {
    const std::uint8_t* in = view.in + y * view.in_width * 3;
    std::uint8_t* out = view.out + y * view.out_width * 3;
    for (std::int64_t x = 0; x < view.out_width; ++x, out += 3) {
      const std::uint8_t* pixel = in + axis.first[static_cast<std::size_t>(x)] * 3;
      const std::int32_t* weights = axis.weights.data() + x * axis.taps;
      std::int32_t sums[3] = {kHalf, kHalf, kHalf};
      for (std::int64_t k = 0; k < axis.count[static_cast<std::size_t>(x)]; ++k, pixel += 3) {
        for (int channel = 0; channel < 3; ++channel) {
          sums[channel] += pixel[channel] * weights[k];
        }
      }
      for (int channel = 0; channel < 3; ++channel) {
        out[channel] = to_byte(sums[channel]);
      }
    }
  }
}

void resample_columns_portable(const ColumnsView& view, const AxisWeights& axis) {
  std::vector<std::int32_t> sums(static_cast<std::size_t>(view.stride));
  for (std::int64_t y = 0; y < view.out_rows; ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    const std::uint8_t* in = view.in + axis.first[static_cast<std::size_t>(y)] * view.stride;
    for (std::int64_t k = 0; k < axis.count[static_cast<std::size_t>(y)]; ++k, in += view.stride) {
      const std::int32_t weight = axis.weights[static_cast<std::size_t>(y * axis.taps + k)];
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += in[i] * weight;
      }
    }
    std::transform(sums.begin(), sums.end(), view.out + y * view.stride, to_byte);
  }
}

namespace {

Image resample(const Image& image, ImageSize size, bool avx2) {
  DETFORGE_CHECK(size.height > 0 && size.width > 0 && image.height > 0 && image.width > 0,
                 fmt::format("cannot resize {}x{} to {}x{} (height x width)", image.height,
                             image.width, size.height, size.width),
                 "sizes must be positive");
  Image wide{image.height, size.width, {}};
  if (size.width != image.width) {
    wide.bgr.resize(static_cast<std::size_t>(image.height * size.width * 3));
    const RowsView view{image.bgr.data(), wide.bgr.data(), image.height, image.width, size.width};
    const AxisWeights axis = triangle_weights(image.width, size.width);
    avx2 ? resample_rows_avx2(view, axis) : resample_rows_portable(view, axis);
  }
  const Image& source = size.width != image.width ? wide : image;
  if (size.height == image.height) {
    return source;
  }
  Image out{size.height, size.width,
            std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3))};
  const ColumnsView view{source.bgr.data(), out.bgr.data(), size.width * 3, size.height};
  const AxisWeights axis = triangle_weights(image.height, size.height);
  avx2 ? resample_columns_avx2(view, axis) : resample_columns_portable(view, axis);
  return out;
}

}  // namespace

Image resize_bilinear_portable(const Image& image, ImageSize size) {
  return resample(image, size, false);
}

}  // namespace resize_detail

Image resize_bilinear(const Image& image, ImageSize size) {
  return resize_detail::resample(image, size, resize_detail::has_avx2());
}

LabelMap resize_nearest(const LabelMap& map, ImageSize size) {
  DETFORGE_CHECK(size.height > 0 && size.width > 0 && map.height > 0 && map.width > 0,
                 "cannot resize a label map from or to nothing", "sizes must be positive");
  // Pillow adds the step up instead of multiplying; its rounding decides which side a tie falls to.
  const auto sources = [](std::int64_t in, std::int64_t out) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(out));
    const double step = static_cast<double>(in) / static_cast<double>(out);
    double at = step * 0.5;
    for (auto& source : index) {
      source = std::min(in - 1, static_cast<std::int64_t>(at));
      at += step;
    }
    return index;
  };
  const auto rows = sources(map.height, size.height), columns = sources(map.width, size.width);
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
  double scale = edge / std::min(height, width);
  double new_height = height < width ? edge : scale * height;
  double new_width = height < width ? scale * width : edge;
  const double longest = std::max(new_height, new_width);
  if (longest > limit) {
    scale = limit / longest;
    new_height *= scale;
    new_width *= scale;
  }
  return {static_cast<std::int64_t>(new_height + 0.5), static_cast<std::int64_t>(new_width + 0.5)};
}

}  // namespace detforge
