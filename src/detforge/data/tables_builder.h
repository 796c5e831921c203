#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/data/coco_store.h"

namespace detforge {

/// An object read from a label file, in pixels.
struct LabelObject {
  std::int64_t category_id = 0;
  std::array<double, 4> box_xywh{};  ///< ignored if there is a polygon
  std::uint8_t box_numbers = 4;      ///< CocoAnnotation::box_numbers
  std::vector<double> polygon = {};  ///< x1 y1 x2 y2 ...; its box is the object's
  bool is_crowd = false;
  std::int64_t number = 0;  ///< of its row or object in the label file, from 1
};

/// Fills CocoTables from datasets that have a label file per image (YOLO, VOC): images and
/// annotations get ids 1, 2, 3, ... in the order in which they are added, categories 1..K.
class TablesBuilder {
 public:
  /// `number_name` is what LabelObject::number counts: "line".
  TablesBuilder(const CocoLoadOptions& options, CheckReport& report, std::string number_name);

  void add_category(std::string name);
  /// The following objects are this image's.
  void add_image(const std::filesystem::path& path,
                 ImageSize size,
                 const std::filesystem::path& label_file);
  void add_object(const LabelObject& object);
  /// An object that was left out before it got here, for the totals.
  void count_left_out() { ++left_out_; }

  /// The place of row or object `number` of the current label file, for examples.
  std::string place(std::int64_t number) const;
  /// Of the image that is added next.
  std::int64_t next_image_id() const { return static_cast<std::int64_t>(images_.size()) + 1; }

  /// Checks and refuses as load_coco() does. File names become relative to the folder of the
  /// images: the options' image_root if all are in it, else the folder that they have in common.
  std::shared_ptr<const CocoStore> finish();

 private:
  struct Places;
  void name_images();
  void read_mask(CocoAnnotation& annotation, const LabelObject& object);

  const CocoLoadOptions& options_;
  CheckReport& report_;
  CocoTables tables_;
  std::vector<std::filesystem::path> images_;
  std::shared_ptr<Places> places_;
  std::int64_t left_out_ = 0;
};

}  // namespace detforge
