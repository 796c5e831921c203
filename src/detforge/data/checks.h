#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace detforge {

/// Every problem that annotations can have, one name each (check_name()). What each means, what is
/// done by default and what else may be chosen is one table in check_rules.cpp.
enum class CheckKind : std::uint8_t {
  // Images.
  kImageWithoutFileName,
  kDuplicateImageId,
  kMissingImageSize,
  kImageSizeMismatch,
  kImageSizeSwapped,
  // Images and label files of YOLO and VOC datasets.
  kImageListedTwice,
  kImageUnreadable,
  kPathRepaired,
  kLabelFileMissing,
  kLabelFileUnreadable,
  kLabelWithoutImage,
  kLabelSizeDiffers,
  // Classes.
  kDuplicateCategoryId,
  kDuplicateCategoryName,
  kClassNotInFile,
  kClassWithoutInstances,
  // Annotations: identity.
  kMissingAnnotationId,
  kDuplicateAnnotationId,
  kUnknownImageId,
  kUnknownCategoryId,
  kClassFiltered,
  // Rows of label files (YOLO) and objects of XML files (VOC).
  kClassesLookOneBased,
  kBoxesLookLikePixels,
  kBoxesLookZeroBased,
  kLabelMalformed,
  kLabelColumns,
  kClassOutOfRange,
  kBoxNotNormalised,
  kLabelDuplicate,
  // Annotations: boxes.
  kBoxesLookLikeCorners,
  kBoxMissing,
  kBoxFromMask,
  kBoxMalformed,
  kBoxNotFinite,
  kBoxNegativeSize,
  kBoxZeroSize,
  kBoxOutside,
  kBoxClipped,
  kBoxSubPixel,
  // Annotations: masks and optional keys.
  kPolygonPartInvalid,
  kMaskInvalid,
  kRleMalformed,
  kRleSizeMismatch,
  kMissingSegmentation,
  kMissingArea,
  kMissingIscrowd,
  kCount,
};
inline constexpr std::size_t kCheckKinds = static_cast<std::size_t>(CheckKind::kCount);

/// What is done about a problem. kFix: repaired, or kept where there is nothing to repair, as the
/// table in check_rules.cpp says. kDrop: the image or annotation is left out of training. kError:
/// the file is refused.
enum class CheckAction : std::uint8_t { kFix, kDrop, kError };

/// The name by which users and reports know the problem: "box_zero_size".
std::string_view check_name(CheckKind kind);
std::string_view check_name(CheckAction action);

/// Which action each problem gets; starts with the defaults.
///   CheckPolicy policy;
///   policy.set("box_negative_size", "drop");
class CheckPolicy {
 public:
  CheckPolicy();
  CheckAction action(CheckKind kind) const { return actions_[static_cast<std::size_t>(kind)]; }
  /// Throws Error of kind kUsage, naming the choices, if the problem does not allow the action.
  void set(CheckKind kind, CheckAction action);
  /// By name; unknown names get an Error that lists the nearest one.
  void set(std::string_view kind, std::string_view action);

 private:
  std::array<CheckAction, kCheckKinds> actions_;
};

/// Where one problem was met.
struct CheckExample {
  std::int64_t index =
      0;  ///< position in the file's list of images, categories or annotations, from 0
  std::optional<std::int64_t> id = std::nullopt;        ///< the record's own id, if it has one
  std::optional<std::int64_t> image_id = std::nullopt;  ///< of an annotation
  std::string detail = {};  ///< the offending value: "bbox [10, 10, 0, 5]"
  std::string place = {};   ///< "labels/a.txt, line 3"; empty: the index and ids say where
};

/// Counts of problems of one annotation file with the first ten examples of each, and what was
/// done.
class CheckReport {
 public:
  static constexpr std::size_t kMaxExamples = 10;

  explicit CheckReport(CheckPolicy policy = {}) : policy_(policy) {}

  /// Counts a problem and returns what is to be done about it. `describe` makes the example; it is
  /// called for the first ten only, so counting millions stays cheap.
  template <typename Describe>
  CheckAction add(CheckKind kind, Describe&& describe) {
    Entry& entry = entries_[static_cast<std::size_t>(kind)];
    if (entry.examples.size() < kMaxExamples) {
      entry.examples.push_back(with_place(kind, describe()));
    }
    ++entry.count;
    return policy_.action(kind);
  }
  void set_file(std::string path) { file_ = std::move(path); }
  /// For datasets of many files: says where an annotation stands, from the example's index. Asked
  /// for examples of annotations that come without a place, as long as the report lives.
  using PlaceOf = std::function<std::string(const CheckExample&)>;
  void set_places(PlaceOf place_of) { place_of_ = std::move(place_of); }
  /// Totals of the file and how many annotations are not used for training, for the sentences.
  void set_totals(std::int64_t images, std::int64_t annotations, std::int64_t dropped);

  const std::string& file() const { return file_; }
  const CheckPolicy& policy() const { return policy_; }
  std::int64_t images() const { return images_; }
  std::int64_t annotations() const { return annotations_; }
  std::int64_t dropped() const { return dropped_; }
  std::int64_t count(CheckKind kind) const {
    return entries_[static_cast<std::size_t>(kind)].count;
  }
  const std::vector<CheckExample>& examples(CheckKind kind) const {
    return entries_[static_cast<std::size_t>(kind)].examples;
  }
  /// Problems that were repaired, dropped or refused: everything but notes such as clipped boxes.
  bool has_problems() const;

  /// Throws Error for the first kind whose action is kError and that was met: count, first example,
  /// fix.
  void refuse() const;
  /// "Dropped 3 of 4000 annotations: 2 box_zero_size, 1 box_outside." Empty if none was dropped.
  std::string dropped_sentence() const;
  /// A table: name, count, what was done, first example; then the sentence above. Empty if nothing
  /// was met.
  std::string to_text() const;
  /// {"file", "images", "annotations", "dropped", "problems": [{"name", "count", "action",
  /// "meaning", "examples"}]}
  std::string to_json() const;

 private:
  struct Entry {
    std::int64_t count = 0;
    std::vector<CheckExample> examples;
  };
  CheckExample with_place(CheckKind kind, CheckExample example) const;

  CheckPolicy policy_;
  std::string file_;
  PlaceOf place_of_;
  std::int64_t images_ = 0, annotations_ = 0, dropped_ = 0;
  std::array<Entry, kCheckKinds> entries_;
};

}  // namespace detforge
