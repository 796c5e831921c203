#include "detforge/vis/text.h"

#include <algorithm>
#include <cmath>

#include <opencv2/imgproc.hpp>

#include "detforge/vis/canvas.h"

namespace detforge::vis {
namespace {

constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
constexpr double kCapitalHeight = 21;  // of the font at scale 1, in pixels
constexpr int kOversampling = 4;

/// Sizes of large letters: kOversampling times those of the plate.
struct Lettering {
  double scale;
  int stroke, margin_x, margin_y;
  cv::Size text;

  Lettering(const std::string& letters, double text_height)
      : scale(kOversampling * text_height / kCapitalHeight),
        stroke(std::max(1, static_cast<int>(std::lround(kOversampling * text_height * 0.15)))),
        margin_x(static_cast<int>(std::lround(kOversampling * text_height * 0.42))),
        margin_y(static_cast<int>(std::lround(kOversampling * text_height * 0.45))) {
    int baseline = 0;
    text = cv::getTextSize(letters, kFont, scale, stroke, &baseline);
    text.height = static_cast<int>(std::lround(kOversampling * text_height));
  }
  /// Of the plate, in its own pixels.
  cv::Size plate() const {
    const auto reduced = [](int large) { return (large + kOversampling - 1) / kOversampling; };
    return {reduced(text.width + 2 * margin_x), reduced(text.height + 2 * margin_y)};
  }
};

/// How much ink each pixel of the plate has, 0 to 255.
cv::Mat coverage(const std::string& letters, const Lettering& lettering) {
  const cv::Size plate = lettering.plate();
  cv::Mat large(plate.height * kOversampling, plate.width * kOversampling, CV_8UC1,
                cv::Scalar::all(0));
  cv::putText(large, letters, {lettering.margin_x, lettering.margin_y + lettering.text.height},
              kFont, lettering.scale, cv::Scalar::all(255), lettering.stroke, cv::LINE_AA);
  cv::Mat small;
  cv::resize(large, small, plate, 0, 0, cv::INTER_AREA);
  return small;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string ascii;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      ascii += c;
    } else if (byte >= 0xC0) {  // the first byte of a character outside ASCII
      ascii += '?';
    }
  }
  return ascii;
}

cv::Size plate_size(const std::string& text, double text_height) {
  return Lettering(printable(text), text_height).plate();
}

void draw_plate(cv::Mat& canvas,
                const std::string& text,
                cv::Point corner,
                const Colour& ground,
                double text_height) {
  const std::string letters = printable(text);
  const Lettering lettering(letters, text_height);
  const cv::Rect plate(corner, lettering.plate());
  const cv::Rect visible = plate & cv::Rect(0, 0, canvas.cols, canvas.rows);
  if (visible.empty()) {
    return;
  }
  // By the eye's sensitivity (ITU-R BT.601).
  const double brightness = 0.114 * ground[0] + 0.587 * ground[1] + 0.299 * ground[2];
  const double ink = brightness > 120 ? 0 : 255;
  const cv::Mat strength = coverage(letters, lettering);
  for (int y = visible.y; y < visible.y + visible.height; ++y) {
    auto* pixel = canvas.ptr<std::uint8_t>(y) + 3 * visible.x;
    for (int x = visible.x; x < visible.x + visible.width; ++x, pixel += 3) {
      const double share = strength.at<std::uint8_t>(y - plate.y, x - plate.x) / 255.0;
      for (std::size_t channel = 0; channel < 3; ++channel) {
        pixel[channel] =
            static_cast<std::uint8_t>(std::lround(ground[channel] * (1 - share) + ink * share));
      }
    }
  }
}

}  // namespace detforge::vis
