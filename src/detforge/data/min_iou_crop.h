#pragma once

#include <optional>
#include <vector>

#include "detforge/data/transforms.h"

namespace detforge {

/// mmdetection's MinIoURandomCrop (Liu et al., SSD, arXiv:1512.02325, sec. 2.2): a window in which
/// every object overlaps the window with at least a randomly chosen IoU, or any window, or no crop.
/// Objects whose centre is outside are removed.
/// A choice is one of {no crop, each of min_ious, any window}. A window's sides are random between
/// min_crop_size and 1 of the image's, height / width between 0.5 and 2, corners at whole pixels;
/// where there are objects at least one centre lies inside. After 50 windows that do not fit,
/// another choice is made. Boxes of crowds count as all others.
class MinIouRandomCrop : public Transform {
 public:
  struct Options {
    std::vector<double> min_ious = {0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
    double min_crop_size = 0.3;  ///< of the image's sides
  };
  /// Throws Error unless the IoUs lie between 0 and 1 and min_crop_size above 0 and up to 1.
  explicit MinIouRandomCrop(Options options);
  void apply(Sample& sample, Rng& rng) const override;

  /// One try: a window in which all boxes have at least `min_iou`, none if the one drawn does not
  /// fit.
  std::optional<Window> draw_window(const Sample& sample, double min_iou, Rng& rng) const;

 private:
  Options options_;
};

/// Cuts the window out and removes the objects whose centre is not inside it.
void crop_to_centres_(Sample& sample, const Window& window);

}  // namespace detforge
