#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "detforge/eval/matching.h"

namespace detforge {

/// The detections of one category over all images: images by rising id, by falling score inside an
/// image.
struct CategoryMatches {
  std::span<const double> scores;        ///< [D]
  std::span<const std::uint32_t> ranks;  ///< [D]: position inside its image
  std::span<const MatchFlags> flags;     ///< [A,D]
  std::span<const std::int64_t> judged;  ///< [A]: objects that count
};

/// Turns the matches of category k into its columns of the result's precision, scores and recall.
/// Precision at a recall is the best precision at that recall or above it, 0 beyond the last recall
/// reached. Holds buffers: one per thread; different categories touch different elements of the
/// result.
class CategoryAccumulator {
 public:
  void accumulate(const CategoryMatches& matches, std::size_t k, CocoEvalResult& result);

 private:
  void fill_recalls(const CategoryMatches& matches,
                    std::size_t k,
                    std::size_t a,
                    CocoEvalResult& result);
  void fill_curve(const CategoryMatches& matches,
                  std::size_t k,
                  std::size_t a,
                  std::size_t t,
                  CocoEvalResult& result);

  std::vector<std::uint32_t> order_;  // detections by falling score over all images, ties by image
  std::vector<MatchFlags> by_score_;  // of the area range at hand, in that order
  std::vector<double> recall_, precision_;
};

}  // namespace detforge
