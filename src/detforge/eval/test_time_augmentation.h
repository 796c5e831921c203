#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "detforge/data/collate.h"
#include "detforge/models/detector.h"
#include "detforge/structures/image.h"

namespace detforge {

/// TEST.AUG and what merging needs to know of the model. The defaults are Detectron2's.
struct TestTimeAugmentationOptions {
  std::vector<std::int64_t> min_sizes{400, 500,  600,  700, 800,
                                      900, 1000, 1100, 1200};  ///< shorter edges of the views
  std::int64_t max_size = 4000;                                ///< bound of the longer edge
  bool flip = true;                                            ///< each view also mirrored
  double nms_threshold = 0.5;               ///< IoU within a class, over all views
  std::int64_t detections_per_image = 100;  ///< the best ones kept
  CollateOptions collate{};                 ///< how the detector's input is normalised
};

/// A detector that looks at resized and mirrored views of an image, one after the other, and joins
/// what it finds: boxes of all views, brought back to the image, go through one non-maximum
/// suppression within each class; the masks of the boxes that are left are predicted in every view
/// and averaged. Costs one forward pass a view, two with masks.
///   AugmentedDetector augmented(detector, {.collate = collate_options});
///   augmented.predict(batch);  // of images as they are in the file: no test transform before
/// Works on the 8-bit pictures inside the batch, which it gets back exactly from the normalised
/// pixels; detections are in pixels of these pictures. Not thread-safe.
/// Ref: Detectron2's GeneralizedRCNNWithTTA, but resized from the original image and without other
/// views' padding.
class AugmentedDetector final : public Detector {
 public:
  /// Shares `detector`, and takes it along into eval mode. Throws Error without a positive size.
  AugmentedDetector(std::shared_ptr<Detector> detector, const TestTimeAugmentationOptions& options);

  /// Those of the detector, without augmentation.
  LossMap losses(const ImageBatch& images,
                 const std::vector<Targets>& targets,
                 const LossCounts* whole = nullptr) override;
  LossCounts loss_counts(const ImageBatch& images, const std::vector<Targets>& targets) override;
  std::vector<Detections> predict(const ImageBatch& images) override;
  std::vector<Detections> predict_boxes(const ImageBatch& images) override;
  bool has_masks() const override { return detector_->has_masks(); }
  /// Averages of the masks in all views.
  std::vector<Tensor> predict_masks(const ImageBatch& images,
                                    const std::vector<Detections>& detections) override;

  /// Detections of one picture (BGR), in its pixels.
  Detections predict(const Image& image);

 private:
  struct View {
    ImageSize size;
    bool flipped = false;
  };
  std::vector<View> views_of(ImageSize size) const;
  ImageBatch make_batch(const Image& image, const View& view) const;
  Detections find_boxes(const Image& image);
  Detections merge(const std::vector<Detections>& found, ImageSize size) const;
  Tensor average_masks(const Image& image, const Detections& found) const;

  std::shared_ptr<Detector> detector_;
  TestTimeAugmentationOptions options_;
};

}  // namespace detforge
