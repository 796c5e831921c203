#include "detforge/vis/canvas.h"

#include <algorithm>
#include <cmath>

#include <opencv2/imgproc.hpp>

namespace detforge::vis {

Style style_for(ImageSize size) {
  const double edge = std::sqrt(static_cast<double>(size.height) * static_cast<double>(size.width));
  return {.font_scale = std::max(0.4, edge / 1250),
          .line_width = std::max(1, static_cast<int>(std::lround(edge / 300))),
          .text_width = std::max(1, static_cast<int>(std::lround(edge / 900)))};
}

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

void draw_label(cv::Mat& canvas,
                const std::string& text,
                cv::Point at,
                const cv::Scalar& ground,
                const Style& style) {
  constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
  int baseline = 0;
  const std::string letters = printable(text);
  const cv::Size size =
      cv::getTextSize(letters, kFont, style.font_scale, style.text_width, &baseline);
  const int margin = std::max(2, size.height / 4);
  const cv::Size outer(size.width + 2 * margin, size.height + 2 * margin);
  const int left = std::clamp(at.x, 0, std::max(0, canvas.cols - outer.width));
  const int bottom = std::clamp(at.y, std::min(outer.height, canvas.rows), canvas.rows);
  cv::rectangle(canvas, cv::Rect(left, bottom - outer.height, outer.width, outer.height), ground,
                cv::FILLED);
  // Dark letters on light colours, by the eye's sensitivity (ITU-R BT.601).
  const double brightness = 0.114 * ground[0] + 0.587 * ground[1] + 0.299 * ground[2];
  const cv::Scalar ink = brightness > 140 ? cv::Scalar(0, 0, 0) : cv::Scalar(255, 255, 255);
  cv::putText(canvas, letters, {left + margin, bottom - margin}, kFont, style.font_scale, ink,
              style.text_width, cv::LINE_AA);
}

}  // namespace detforge::vis
