#pragma once

#include "detforge/core/rng.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Copy-paste augmentation (Ghiasi et al., Simple Copy-Paste, arXiv:2012.07177): puts objects of a
/// second image, pixels and records, on top of this one. Without blending of edges, which the paper
/// found not to matter.
struct CopyPasteOptions {
  double probability = 1;           ///< that an image gets objects of another
  double object_probability = 0.5;  ///< that an object of the other image is taken
  double min_visible_frac = 0.1;    ///< of its pixels that an object underneath must keep
};

/// What paste_objects_() did.
struct CopyPasteCounts {
  std::int64_t pasted = 0;   ///< objects taken over
  std::int64_t covered = 0;  ///< objects of the image that lost pixels and keep some
  std::int64_t hidden = 0;   ///< objects of the image of which too little is left: removed
};

/// Pastes a random subset of the objects of `other` (those with a mask that shows a pixel; crowds
/// are not taken) at the place they have there, cut to the size of `sample`; one that the cut
/// changes gets the tight box of what is left. Objects underneath lose the pixels that are covered:
/// their mask becomes an RLE, their box the tight box of it, and they are removed if no pixel, or
/// less than `min_visible_frac` of those they had, is left: nobody would find an object of which a
/// few pixels show. Objects without a mask stay as they are. Pasted objects hide nothing of one
/// another. Throws Error if a mask does not fit its image.
CopyPasteCounts paste_objects_(Sample& sample,
                               Sample other,
                               const CopyPasteOptions& options,
                               Rng& rng);

}  // namespace detforge
