#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detforge/data/write_dataset.h"

namespace detforge {

/// What the writers of all formats share: which classes and objects are written, and under which
/// names.
class DatasetWriter {
 public:
  /// Throws Error for a class that the dataset does not have.
  DatasetWriter(const CocoStore& store, const WriteOptions& options);

  const CocoStore& store() const { return store_; }
  const WriteOptions& options() const { return options_; }
  /// Classes in the order of their labels, and the category ids for COCO.
  const std::vector<std::string>& class_names() const { return class_names_; }
  const std::vector<std::int64_t>& category_ids() const { return category_ids_; }
  /// 0..K-1, or -1 if the object is not written: unusable, or of no chosen class.
  std::int64_t label_of(const CocoAnnotation& annotation) const;
  /// File names by image: as they were, but only the last part if the name leaves the folder.
  /// Throws Error if two images have one name; `without_extension`: or would have one label file.
  std::vector<std::filesystem::path> image_names(bool without_extension) const;
  /// Throws Error if the file is there and may not be replaced.
  void require_free(const std::filesystem::path& path) const;
  /// Copies or links an image, as the options say, to write_folder()'s temporary `to`, which will
  /// become `place`. One that is `place` itself stays as it is: a dataset may be written into its
  /// own folder. Links lead to the file itself, not to another link.
  void put_image(const CocoImage& image,
                 const std::filesystem::path& to,
                 const std::filesystem::path& place) const;
  /// The image's size; throws Error if it is unknown.
  ImageSize size_of(const CocoImage& image) const;

  WriteReport report = {};

 private:
  const CocoStore& store_;
  const WriteOptions& options_;
  std::vector<std::string> class_names_;
  std::vector<std::int64_t> category_ids_;
  std::vector<std::int64_t> label_of_category_;
};

/// The writers of write_dataset(). They fill writer.report.
void write_coco(DatasetWriter& writer);
void write_yolo(DatasetWriter& writer);
void write_voc(DatasetWriter& writer);

/// A number with at most `digits` decimals and no zeros at the end, never with an exponent.
std::string decimal(double value, int digits);

/// The text as a JSON (and YAML) string, in quotes.
std::string json_text(std::string_view text);

}  // namespace detforge
