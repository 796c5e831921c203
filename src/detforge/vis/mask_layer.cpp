#include "detforge/vis/mask_layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <opencv2/imgproc.hpp>

#include "detforge/structures/rle.h"
#include "detforge/structures/rle_spans.h"
#include "detforge/vis/canvas.h"

namespace detforge::vis {
namespace {

cv::Rect place_of(const MaskPiece& piece) {
  return {piece.corner, piece.bits.size()};
}

cv::Rect frame_of(const cv::Mat& canvas) {
  return {0, 0, canvas.cols, canvas.rows};
}

/// The piece with `margin` empty pixels around it.
MaskPiece padded(const MaskPiece& piece, int margin) {
  MaskPiece wide{.bits = {}, .corner = piece.corner - cv::Point(margin, margin)};
  cv::copyMakeBorder(piece.bits, wide.bits, margin, margin, margin, margin, cv::BORDER_CONSTANT,
                     cv::Scalar::all(0));
  return wide;
}

/// Mixes `colour` into the picture by a strength of its own for each pixel, 0 to 255, times
/// `factor`.
void mix(cv::Mat& canvas, const MaskPiece& strengths, const Colour& colour, double factor) {
  std::array<int, 256> shares{};  // of the colour, in 256ths
  for (std::size_t i = 0; i < shares.size(); ++i) {
    shares[i] = static_cast<int>(std::lround(factor * static_cast<double>(i) / 255 * 256));
  }
  const cv::Rect visible = place_of(strengths) & frame_of(canvas);
  for (int y = visible.y; y < visible.y + visible.height; ++y) {
    auto* pixel = canvas.ptr<std::uint8_t>(y) + 3 * visible.x;
    const auto* strength =
        strengths.bits.ptr<std::uint8_t>(y - strengths.corner.y) + (visible.x - strengths.corner.x);
    for (int x = 0; x < visible.width; ++x, pixel += 3) {
      const int share = shares[strength[x]];
      for (std::size_t channel = 0; share > 0 && channel < 3; ++channel) {
        pixel[channel] = static_cast<std::uint8_t>(
            (pixel[channel] * (256 - share) + colour[channel] * share + 128) / 256);
      }
    }
  }
}

}  // namespace

MaskPiece cut_mask(RleView mask) {
  check_rle(mask.counts, mask.size);
  const Box box = rle_box(mask.counts, mask.size.height);
  const auto left = static_cast<std::int64_t>(box.x1), top = static_cast<std::int64_t>(box.y1);
  MaskPiece piece{.bits = {}, .corner = {static_cast<int>(left), static_cast<int>(top)}};
  if (box.area() <= 0) {
    return piece;
  }
  piece.bits =
      cv::Mat::zeros(static_cast<int>(box.height()), static_cast<int>(box.width()), CV_8UC1);
  for_each_column_span(mask, [&](std::int64_t x, std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      piece.bits.at<std::uint8_t>(static_cast<int>(y - top), static_cast<int>(x - left)) = 255;
    }
  });
  return piece;
}

MaskPiece enlarged(const MaskPiece& piece, double scale_x, double scale_y) {
  if (piece.bits.empty() || (scale_x == 1 && scale_y == 1)) {
    return piece;
  }
  const MaskPiece wide = padded(piece, 1);
  const auto scaled = [](int value, double scale) {
    return static_cast<int>(std::floor(value * scale));
  };
  MaskPiece large{.bits = {},
                  .corner = {scaled(wide.corner.x, scale_x), scaled(wide.corner.y, scale_y)}};
  const cv::Size size(scaled(wide.corner.x + wide.bits.cols, scale_x) + 1 - large.corner.x,
                      scaled(wide.corner.y + wide.bits.rows, scale_y) + 1 - large.corner.y);
  // From a pixel's centre in the large picture to the piece's own pixels.
  const cv::Matx23d to_small(1 / scale_x, 0, (large.corner.x + 0.5) / scale_x - 0.5 - wide.corner.x,
                             0, 1 / scale_y,
                             (large.corner.y + 0.5) / scale_y - 0.5 - wide.corner.y);
  cv::warpAffine(wide.bits, large.bits, to_small, size, cv::INTER_LINEAR | cv::WARP_INVERSE_MAP);
  cv::threshold(large.bits, large.bits, 127, 255, cv::THRESH_BINARY);
  return large;
}

void tint(cv::Mat& canvas, const MaskPiece& piece, const Colour& colour, double strength) {
  if (!piece.bits.empty()) {
    mix(canvas, piece, colour, strength);
  }
}

void tint_frame(
    cv::Mat& canvas, const Box& box, const Colour& colour, int line_width, double strength) {
  const auto bounded = [](double value, int most) {
    return static_cast<int>(std::lround(std::clamp(value, 0.0, static_cast<double>(most))));
  };
  const int left = bounded(box.x1, canvas.cols), right = bounded(box.x2, canvas.cols);
  const int top = bounded(box.y1, canvas.rows), bottom = bounded(box.y2, canvas.rows);
  const int width = right - left, height = bottom - top;
  const int across = std::min(line_width, width), down = std::min(line_width, height);
  const cv::Rect inner_rows(0, top + down, 0, std::max(0, height - 2 * down));
  for (const cv::Rect& side :
       {cv::Rect(left, top, width, down), cv::Rect(left, bottom - down, width, down),
        cv::Rect(left, inner_rows.y, across, inner_rows.height),
        cv::Rect(right - across, inner_rows.y, across, inner_rows.height)}) {
    if (!side.empty()) {
      mix(canvas,
          {.bits = cv::Mat(side.size(), CV_8UC1, cv::Scalar::all(255)), .corner = side.tl()},
          colour, strength);
    }
  }
}

void outline(cv::Mat& canvas, const MaskPiece& piece, const Colour& colour, int line_width) {
  if (piece.bits.empty()) {
    return;
  }
  constexpr Colour kDark = {20, 20, 20};
  constexpr double kShadow = 0.55;
  const MaskPiece wide = padded(piece, 2 * line_width + 2);
  std::vector<std::vector<cv::Point>> contours;
  cv::findContours(wide.bits, contours, cv::RETR_CCOMP, cv::CHAIN_APPROX_NONE);
  MaskPiece line{.bits = cv::Mat::zeros(wide.bits.size(), CV_8UC1), .corner = wide.corner};
  cv::drawContours(line.bits, contours, -1, cv::Scalar::all(255), line_width + 2, cv::LINE_AA);
  mix(canvas, line, kDark, kShadow);
  line.bits.setTo(0);
  cv::drawContours(line.bits, contours, -1, cv::Scalar::all(255), line_width, cv::LINE_AA);
  mix(canvas, line, colour, 1);
}

}  // namespace detforge::vis
