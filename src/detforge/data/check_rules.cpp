#include "detforge/data/check_rules.h"

namespace detforge {
namespace {

using enum CheckKind;
using enum CheckAction;
using enum CheckSubject;

constexpr std::array<CheckRule, kCheckKinds> kRules{{
    {kImageWithoutFileName, "image_without_file_name", kImage, kError, "de", false,
     "no \"file_name\"; drop leaves the image out", "give each image its file_name"},
    {kDuplicateImageId, "duplicate_image_id", kImage, kError, "de", false,
     "an image id is used twice; drop keeps the first", "give each image an id of its own"},
    {kMissingImageSize, "missing_image_size", kImage, kFix, "fe", true,
     "no height or width; fix reads them from the image file", "write height and width"},
    {kImageSizeMismatch, "image_size_mismatch", kImage, kError, "fe", false,
     "the decoded size is not the file's height and width; fix trusts the decoded one",
     "was the picture resized after it was annotated?"},
    {kImageSizeSwapped, "image_size_swapped", kImage, kError, "fe", false,
     "the sizes agree only when swapped; fix reads such a picture without EXIF turning",
     "annotate the picture as viewers show it, or read with apply_exif off, or set "
     "image_size_swapped to fix"},
    {kImageListedTwice, "image_listed_twice", kImage, kDrop, "fde", false,
     "the image is listed more than once; drop keeps the first, fix keeps all with ids of their "
     "own",
     "list each image once"},
    {kImageUnreadable, "image_unreadable", kImage, kError, "de", false,
     "the image is missing, or its header cannot be read; drop leaves it and its objects out",
     "check the path, give the folder of the images, or set image_unreadable to drop"},
    {kPathRepaired, "path_repaired", kImage, kFix, "fe", true,
     "the image is not where the file says, as when it was written on Windows; fix takes the one "
     "that was found: other slashes, upper and lower case, or only the end of the path agree",
     "write the list anew on this machine"},
    {kLabelFileMissing, "label_file_missing", kImage, kFix, "fde", true,
     "the image has no label file; fix takes it as an image without objects, drop leaves it out",
     "write an empty file for images without objects"},
    {kLabelFileUnreadable, "label_file_unreadable", kImage, kError, "de", false,
     "the label file cannot be read; drop leaves the image out", "correct the file or remove it"},
    {kLabelWithoutImage, "label_without_image", kImage, kFix, "fe", false,
     "a label file belongs to no image; fix goes on without it",
     "were images lost, or does the name differ?"},
    {kLabelSizeDiffers, "label_size_differs", kImage, kFix, "fde", false,
     "the XML's size is not the image's; fix trusts the image, drop leaves it out",
     "was the picture resized after it was annotated?"},
    {kDuplicateCategoryId, "duplicate_category_id", kCategory, kError, "e", false,
     "a category id is used twice", "give each category an id of its own"},
    {kDuplicateCategoryName, "duplicate_category_name", kCategory, kError, "e", false,
     "two categories have one name", "merge them or rename one"},
    {kClassNotInFile, "class_not_in_file", kCategory, kFix, "fe", false,
     "a listed class is no category of the file; fix goes on without objects of it",
     "compare the class list with the file's category names"},
    {kClassWithoutInstances, "class_without_instances", kCategory, kFix, "fe", false,
     "no usable object of this class",
     "the model cannot learn it: check the file or the class list"},
    {kMissingAnnotationId, "missing_annotation_id", kAnnotation, kFix, "fde", true,
     "no \"id\"; fix gives the next free one", "write ids"},
    {kDuplicateAnnotationId, "duplicate_annotation_id", kAnnotation, kFix, "fde", false,
     "an annotation id is used twice; fix keeps all, drop keeps the first",
     "give each annotation its own id"},
    {kUnknownImageId, "unknown_image_id", kAnnotation, kDrop, "de", false,
     "the image_id belongs to no image", "are image_id and id swapped, or images missing?"},
    {kUnknownCategoryId, "unknown_category_id", kAnnotation, kError, "de", false,
     "the category_id belongs to no category",
     "add the category, or set unknown_category_id to drop"},
    {kClassFiltered, "class_filtered", kAnnotation, kDrop, "d", true,
     "the class is not in the list of classes", ""},
    {kClassesLookOneBased, "classes_look_one_based", kAnnotation, kError, "fe", false,
     "class numbers go from 1 to the number of classes, none is 0; fix counts them from 0",
     "YOLO counts classes from 0: write the labels anew, or set classes_look_one_based to fix"},
    {kBoxesLookLikePixels, "boxes_look_like_pixels", kAnnotation, kError, "fe", false,
     "most boxes have values far above 1; fix reads on, and box_not_normalised takes them",
     "YOLO boxes are fractions of the image's width and height: divide by them"},
    {kBoxesLookZeroBased, "boxes_look_zero_based", kAnnotation, kFix, "fe", false,
     "a box begins at pixel 0, but VOC counts from 1; fix reads on as VOC does: where the files "
     "count from 0, all boxes lie a pixel too far left and up",
     "say that the files count from 0"},
    {kLabelMalformed, "label_malformed", kAnnotation, kError, "de", false,
     "something is not what it must be: a number, a name",
     "a YOLO row is: class cx cy w h, with decimal points and spaces; a VOC object has a name"},
    {kLabelColumns, "label_columns", kAnnotation, kDrop, "de", false,
     "the row has neither 5 columns nor the class and at least 3 points",
     "write: class cx cy w h, or: class x1 y1 x2 y2 x3 y3 ..."},
    {kClassOutOfRange, "class_out_of_range", kAnnotation, kError, "de", false,
     "the class number belongs to no name",
     "add the names, correct the label, or set class_out_of_range to drop"},
    {kBoxNotNormalised, "box_not_normalised", kAnnotation, kDrop, "de", false,
     "a value is outside 0..1 by more than 0.001", "YOLO values are fractions of width and height"},
    {kLabelDuplicate, "label_duplicate", kAnnotation, kDrop, "fde", false,
     "the file has this row already; drop keeps the first, fix keeps all", "remove the copies"},
    {kBoxesLookLikeCorners, "boxes_look_like_corners", kAnnotation, kError, "fe", false,
     "most boxes leave the image as [x, y, width, height] but fit it as [x1, y1, x2, y2]; fix "
     "reads on as written",
     "convert the boxes to [x, y, width, height], or set boxes_look_like_corners to fix if they "
     "are right"},
    {kBoxMissing, "box_missing", kAnnotation, kDrop, "de", false,
     "no \"bbox\", and no mask to take it from", "write bbox: [x, y, width, height]"},
    {kBoxFromMask, "box_from_mask", kAnnotation, kFix, "fde", false,
     "no \"bbox\"; fix takes the box of the mask", "write bbox: [x, y, width, height]"},
    {kBoxMalformed, "box_malformed", kAnnotation, kError, "de", false,
     "bbox does not have four numbers", "write bbox: [x, y, width, height]"},
    {kBoxNotFinite, "box_not_finite", kAnnotation, kDrop, "de", false, "bbox holds NaN or infinity",
     "write finite numbers"},
    {kBoxNegativeSize, "box_negative_size", kAnnotation, kError, "de", false,
     "width or height is below 0",
     "bbox is [x, y, width, height], not two corners; or set box_negative_size to drop"},
    {kBoxZeroSize, "box_zero_size", kAnnotation, kDrop, "de", false, "width or height is 0",
     "correct the box"},
    {kBoxOutside, "box_outside", kAnnotation, kDrop, "de", false,
     "nothing of the box is inside the image", "is the annotation on the right image?"},
    {kBoxClipped, "box_clipped", kAnnotation, kFix, "fde", true,
     "the box crosses the border by more than 0.001 pixels; fix clips it for training, evaluation "
     "keeps the raw box",
     "correct the box"},
    {kBoxSubPixel, "box_sub_pixel", kAnnotation, kFix, "fde", true,
     "width or height is between 0 and 1 pixel; fix keeps it", "correct the box"},
    {kPolygonPartInvalid, "polygon_part_invalid", kAnnotation, kFix, "fde", false,
     "a polygon has fewer than 3 points, an odd count, no area, or a number that is not finite; "
     "fix drops this part",
     "correct the polygon"},
    {kMaskInvalid, "mask_invalid", kAnnotation, kFix, "fde", false,
     "nothing is left of the mask; fix keeps the object for its box", "correct the segmentation"},
    {kRleMalformed, "rle_malformed", kAnnotation, kError, "fde", false,
     "the RLE cannot be decoded; fix drops the mask, not the box",
     "write size: [height, width] and counts as pycocotools does"},
    {kRleSizeMismatch, "rle_size_mismatch", kAnnotation, kError, "fde", false,
     "the RLE's size is not the image's; fix drops the mask, not the box",
     "size is [height, width] of the image"},
    {kMissingSegmentation, "missing_segmentation", kAnnotation, kFix, "fde", true,
     "no \"segmentation\": the object serves for boxes only", "write segmentation"},
    {kMissingArea, "missing_area", kAnnotation, kFix, "fde", true,
     "no \"area\"; fix takes the mask's, else the box's", "write area"},
    {kMissingIscrowd, "missing_iscrowd", kAnnotation, kFix, "fde", true,
     "no \"iscrowd\"; fix takes 0", "write iscrowd"},
}};

constexpr bool rules_are_in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].kind != static_cast<CheckKind>(i)) {
      return false;
    }
  }
  return true;
}
static_assert(rules_are_in_order(), "kRules is indexed by CheckKind");

}  // namespace

std::span<const CheckRule, kCheckKinds> check_rules() {
  return kRules;
}

}  // namespace detforge
