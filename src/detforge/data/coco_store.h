#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/data/checks.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// One image of a COCO instances file.
struct CocoImage {
  std::int64_t id = 0;
  ImageSize size;  ///< 0 x 0 if the file does not say it and no image folder was given
  std::uint64_t name_begin = 0;  ///< of the file name in CocoTables::names
  std::uint32_t name_length = 0;
  std::int64_t first_annotation = 0,
               annotation_count = 0;  ///< its range of CocoTables::annotations
};

struct CocoCategory {
  std::int64_t id = 0;
  std::string name;
};

/// One annotation: a fixed-size record; masks are in the pools of CocoTables.
struct CocoAnnotation {
  std::int64_t id = 0, image_id = 0, category_id = 0;
  std::array<double, 4> box_xywh{};  ///< exactly as in the file: evaluation uses it unclipped
  double area = 0;                   ///< as in the file, else the mask's, else the box's
  std::int64_t file_index = 0;       ///< position in the file's list
  std::uint64_t first_part = 0;      ///< of its polygons in CocoTables::parts
  std::uint32_t part_count = 0;
  std::int32_t rle = -1;         ///< index into CocoTables::rles, or -1
  std::int32_t category = -1;    ///< index into CocoTables::categories
  std::uint8_t box_numbers = 0;  ///< how many numbers "bbox" had; 0 if the key was absent
  bool has_id = false, has_area = false, has_iscrowd = false, has_segmentation = false;
  bool is_crowd = false;
  bool usable = true;  ///< serves for training; evaluation uses all
};

/// The file as flat arrays: no allocation per annotation, so a million of them stay compact, can be
/// shared by threads without copies, and could be mapped from a cache file.
struct CocoTables {
  struct Span {
    std::uint64_t begin = 0;
    std::uint32_t count = 0;
  };
  struct RleSpan {
    std::uint64_t begin = 0;
    std::uint32_t count = 0;
    ImageSize size;
  };

  std::vector<CocoImage> images;
  std::vector<CocoAnnotation> annotations;
  std::vector<CocoCategory> categories;
  std::string image_root;             ///< the folder that file names are relative to
  std::string names;                  ///< file names, end to end
  std::vector<Span> parts;            ///< polygons: ranges of coordinates
  std::vector<double> coordinates;    ///< x0 y0 x1 y1 ...
  std::vector<RleSpan> rles;          ///< ranges of counts
  std::vector<std::uint32_t> counts;  ///< run lengths

  std::string_view file_name(const CocoImage& image) const {
    return std::string_view(names).substr(image.name_begin, image.name_length);
  }
};

/// A checked annotation file (COCO, or another format brought into COCO's tables), immutable: safe
/// to read from any number of threads. Images and categories are sorted by id (Detectron2's order);
/// the annotations of an image follow each other in file order.
class CocoStore {
 public:
  /// Takes tables that check_coco() has passed.
  explicit CocoStore(CocoTables tables) : tables_(std::move(tables)) {}

  std::span<const CocoImage> images() const { return tables_.images; }
  std::span<const CocoCategory> categories() const { return tables_.categories; }
  std::span<const CocoAnnotation> annotations() const { return tables_.annotations; }
  /// Of one image, usable or not.
  std::span<const CocoAnnotation> annotations(const CocoImage& image) const {
    return annotations().subspan(static_cast<std::size_t>(image.first_annotation),
                                 static_cast<std::size_t>(image.annotation_count));
  }
  std::string_view file_name(const CocoImage& image) const { return tables_.file_name(image); }
  /// The folder that file names are relative to; may be empty.
  const std::string& image_root() const { return tables_.image_root; }
  /// The file name with that folder.
  std::string image_path(const CocoImage& image) const;
  /// The image with this id, or nullptr.
  const CocoImage* find_image(std::int64_t id) const;
  /// A copy of the annotation's mask: polygons, or RLE, or neither.
  Segmentation segmentation(const CocoAnnotation& annotation) const;
  /// Bytes of memory the tables take.
  std::size_t bytes() const;

 private:
  CocoTables tables_;
};

/// How the files of a Pascal VOC dataset are understood.
struct VocOptions {
  bool ignore_difficult = true;  ///< `difficult` objects are crowds: neither trained on nor counted
                                 ///< as missed; false: ordinary objects
  bool one_based = true;  ///< VOC's pixels, from 1 and inclusive: x1 - 1, y1 - 1, x2, y2; false:
                          ///< corners as they are, which is what many other tools write
};

struct CocoLoadOptions {
  std::string image_root = {};  ///< folder of the images. COCO: only to read sizes that the JSON
                                ///< lacks; YOLO, VOC: where images are looked for first
  bool keep_segmentation =
      true;  ///< false: masks are checked and give missing areas, but are not kept
  bool apply_orientation =
      true;  ///< for sizes read from image files: ImageReadOptions::apply_orientation
  std::string split = "train";  ///< YOLO, VOC: the image set, where the source does not name it
  std::vector<std::string> class_names = {};  ///< YOLO: names by class number, where the source has
                                              ///< none; VOC: these come first, in this order
  VocOptions voc = {};
};

/// Reads and checks a COCO instances file. Every problem is counted in `report` (whose policy says
/// what is done about it); problems whose action is kError are thrown together at the end, naming
/// the first. Throws Error for what cannot be read at all: broken JSON (byte and line), ids that
/// are not exact 64-bit integers (annotation and value). Only "images", "annotations" and
/// "categories" are needed.
std::shared_ptr<const CocoStore> load_coco(const std::string& path,
                                           const CocoLoadOptions& options,
                                           CheckReport& report);

/// Where the annotation stands, for a report.
CheckExample example_of(const CocoAnnotation& annotation, std::string detail = {});

/// The box clipped to an image of this size (0 x 0 = unknown: unclipped), as corners.
Box clipped_box(const std::array<double, 4>& box_xywh, ImageSize size);

}  // namespace detforge
