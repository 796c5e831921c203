#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <opencv2/imgcodecs.hpp>

#include "data/coco_files.h"
#include "detforge/data/dataset.h"

namespace detforge::test {

/// A picture with a different colour in nearly every pixel; `shade` tells pictures apart.
inline cv::Mat picture(int height, int width, int shade = 0) {
  cv::Mat out(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      out.at<cv::Vec3b>(y, x) = cv::Vec3b(static_cast<uchar>(x * 3), static_cast<uchar>(y * 5),
                                          static_cast<uchar>(shade * 7));
    }
  }
  return out;
}

inline std::string encoded(const std::string& extension, const cv::Mat& pixels) {
  std::vector<uchar> bytes;
  cv::imencode(extension, pixels, bytes);
  return {bytes.begin(), bytes.end()};
}

/// A JPEG file's bytes with an EXIF block that holds nothing but the orientation.
inline std::string with_orientation(const std::string& jpeg, char orientation) {
  std::string block("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 24);
  block += std::string{orientation, 0, 0, 0} + std::string(4, '\0');
  return jpeg.substr(0, 2) + std::string{'\xFF', '\xE1', 0, static_cast<char>(block.size() + 2)} +
         block + jpeg.substr(2);
}

/// A folder with pictures and gt.json, to be filled and then opened as a data set.
struct DatasetFolder {
  TemporaryFolder folder;
  Json json = {{"images", Json::array()},
               {"annotations", Json::array()},
               {"categories", {{{"id", 1}, {"name", "cell"}}, {{"id", 2}, {"name", "dot"}}}}};

  void add_image(
      std::int64_t id, const std::string& name, const std::string& bytes, int height, int width) {
    files::write_atomic(folder / name, bytes);
    json["images"].push_back(
        {{"id", id}, {"file_name", name}, {"height", height}, {"width", width}});
  }
  void add_box(std::int64_t image_id, const Json& bbox, std::int64_t category = 1) {
    Json a = annotation(static_cast<std::int64_t>(json["annotations"].size()) + 1, bbox);
    a["image_id"] = image_id;
    a["category_id"] = category;
    json["annotations"].push_back(a);
  }
  /// `count` PNG pictures with ids 10, 11, ..., alternately wide and tall, a box of either class in
  /// each.
  void add_pictures(int count) {
    for (int i = 0; i < count; ++i) {
      const int height = 20 + i % 3, width = i % 2 == 0 ? 31 + i % 5 : 12;
      add_image(10 + i, fmt::format("p{}.png", i), encoded(".png", picture(height, width, i)),
                height, width);
      add_box(10 + i, {1 + i % 4, 2, 5 + i % 6, 9}, 1 + i % 2);
    }
  }
  CocoDatasetOptions options() {
    files::write_atomic(folder / "gt.json", json.dump());
    return {.files = {{(folder / "gt.json").string(), folder.path().string()}}};
  }
  CocoDataset open() { return CocoDataset(options()); }
};

}  // namespace detforge::test
