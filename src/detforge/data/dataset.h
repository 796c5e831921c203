#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/data/annotations.h"
#include "detforge/data/checks.h"
#include "detforge/data/coco_store.h"
#include "detforge/data/image_io.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Annotations and the folder of their images.
struct CocoFiles {
  std::string json;        ///< the annotation file, or the source of another format (annotations.h)
  std::string image_root;  ///< that file names are relative to; may be empty for YOLO and VOC,
                           ///< whose sources say where the images are
  AnnotationFormat format = AnnotationFormat::kCoco;
  std::string split = "train";  ///< YOLO, VOC: the image set, where the source does not name it
};

struct CocoDatasetOptions {
  std::vector<CocoFiles> files = {};  ///< several are one after the other, with equal class lists
  std::vector<std::string> classes =
      {};                    ///< label k is classes[k]; empty: all categories, by sorted id
  bool filter_empty = true;  ///< DATALOADER.FILTER_EMPTY_ANNOTATIONS: leave out images without
                             ///< usable non-crowd boxes
  double keep_empty_frac =
      0;  ///< with filter_empty: share of those images that stays, evenly spread
  std::int64_t min_side = 0;  ///< leave out images with a shorter side below this (mmdetection: 32)
  bool keep_segmentation = false;  ///< masks in the samples
  VocOptions voc = {};
  CheckPolicy policy = {};  ///< what is done about each kind of bad annotation
  enum class BadImage {
    kStop,
    kSkip
  } bad_image = BadImage::kStop;  ///< for files that cannot be decoded; kSkip also drops YOLO and
                                  ///< VOC images whose header cannot be read (image_unreadable)
  std::int64_t max_bad_images = 100;  ///< kSkip: more of them than this stop the run
  ImageReadOptions read = {};
};

/// The images of annotation files (COCO, YOLO, Pascal VOC) with their objects. Immutable but for
/// the count of bad images; get() and read() may be called from any thread. Images come in the
/// order of their ids, as in Detectron2. Constructing it loads and checks the files and logs each
/// report and the class table. Classes are matched by name; labels are 0..K-1 inside, category ids
/// are only used to write results.
class CocoDataset {
 public:
  /// Throws Error for files that cannot be read or are refused by the policy, for class lists that
  /// differ, if no image is left, and if no usable non-crowd object is left: with filter_empty in
  /// any case, without it (test sets) only if it was the list of classes that left none.
  explicit CocoDataset(CocoDatasetOptions options);

  std::int64_t size() const { return static_cast<std::int64_t>(items_.size()); }
  /// The decoded image with its usable objects (crowds too, marked), boxes clipped to it. Errors
  /// name path and image id. A file that cannot be decoded throws, or under kSkip is counted,
  /// logged once, and replaced by the next image that can: a function of the index alone.
  Sample get(std::int64_t index) const;
  /// As get(), but a file that is to be skipped gives nothing: for evaluation, where a replacement
  /// would count twice. Without `masks` none are read, whatever keep_segmentation says.
  std::optional<Sample> get_or_skip(std::int64_t index, bool masks = true) const;

  const std::vector<std::string>& class_names() const { return class_names_; }
  /// By label; none if the (first) file lacks the class.
  const std::vector<std::optional<std::int64_t>>& category_ids() const { return category_ids_; }
  const CocoStore& store(std::size_t file = 0) const { return *stores_.at(file); }
  /// One report per file.
  const std::vector<CheckReport>& reports() const { return reports_; }
  std::int64_t image_id(std::int64_t index) const { return image(index).id; }
  /// As in the annotation file.
  std::string_view file_name(std::int64_t index) const;
  /// With the image folder.
  std::string path(std::int64_t index) const;
  ImageSize image_size(std::int64_t index) const { return image(index).size; }
  /// w > h by image, for aspect-ratio grouping.
  std::vector<bool> is_wide() const;
  /// By image; threshold is DATALOADER.REPEAT_THRESHOLD.
  std::vector<double> repeat_factors(double threshold) const;
  /// Usable non-crowd objects by label, over all files.
  const std::vector<std::int64_t>& histogram() const { return histogram_; }
  /// Label, category id, name and number of objects of each class, a line each.
  std::string class_table() const;
  /// Different images that could not be decoded so far.
  std::int64_t bad_images() const;

 private:
  struct Item {
    std::size_t file = 0;
    std::size_t image = 0;
  };
  const CocoImage& image(std::int64_t index) const;
  std::int64_t label_of(std::size_t file, const CocoAnnotation& annotation) const {
    return labels_[file][static_cast<std::size_t>(annotation.category)];
  }
  void load_files();
  void choose_classes();
  void match_classes(std::size_t file);
  void count_objects(std::size_t file);
  bool all_filtered() const;
  void check_class_counts();
  void choose_images();
  void log_reports() const;
  Image decode(std::int64_t index) const;
  Image matching(std::int64_t index, Image pixels) const;
  Sample make_sample(std::int64_t index, Image image, bool masks) const;
  void note_bad_image(std::int64_t index, const std::string& reason) const;

  CocoDatasetOptions options_;
  std::vector<std::shared_ptr<const CocoStore>> stores_;
  std::vector<CheckReport> reports_;
  std::vector<std::string> class_names_;
  std::vector<std::optional<std::int64_t>> category_ids_;
  std::vector<std::vector<std::int64_t>>
      labels_;  ///< by file and category index; -1: not a class of this run
  std::vector<std::int64_t> histogram_;
  std::vector<Item> items_;
  mutable std::mutex bad_mutex_;
  mutable std::set<std::int64_t> bad_;
};

}  // namespace detforge
