#include "detforge/models/yolo/yolo_output.h"

#include <torch/types.h>

#include "detforge/models/box_coder.h"
#include "detforge/models/top_k.h"
#include "detforge/models/yolo/yolo_coder.h"
#include "detforge/ops/nms.h"

namespace detforge {
namespace {

/// Anchors that may become detections.
struct Candidates {
  Tensor boxes;    // [P,4]
  Tensor conf;     // [P]
  Tensor classes;  // [P,K] probabilities
};

std::int64_t limit_of(const YoloOutputOptions& o, std::int64_t count) {
  return o.nms_pre < 0 ? count : o.nms_pre;
}

/// The anchors of one scale and image that are confident enough.
Candidates confident_anchors(const Tensor& map,
                             const YoloScale& scale,
                             const YoloOutputOptions& o) {
  const Tensor rows = yolo_rows(map.unsqueeze(0), scale)[0];  // [H*W,A,5+K]
  const Tensor all_conf = rows.select(2, 4).sigmoid().reshape({-1});
  Tensor chosen = (all_conf >= o.conf_threshold).nonzero().squeeze(1);
  if (o.selection == YoloSelection::kConf) {
    const Tensor best =
        top_k_indices(all_conf.index_select(0, chosen), limit_of(o, chosen.size(0)));
    chosen = chosen.index_select(0, best);
  }
  const std::int64_t anchors = scale.anchor_count();
  const Tensor values =
      rows.index({torch::div(chosen, anchors, "floor"), chosen.remainder(anchors)});
  const Tensor boxes = decode_yolo_rows(
      yolo_anchors(scale, {map.size(1), map.size(2)}).index_select(0, chosen), values, scale);
  const Tensor usable =
      boxes.isfinite().all(1).logical_and(nonempty_boxes(boxes)).nonzero().squeeze(1);
  return {.boxes = boxes.index_select(0, usable),
          .conf = all_conf.index_select(0, chosen).index_select(0, usable),
          .classes = values.slice(1, 5).index_select(0, usable).sigmoid()};
}

Candidates join(const std::vector<Candidates>& parts) {
  const auto all = [&parts](auto member) {
    std::vector<Tensor> tensors;
    for (const Candidates& part : parts) {
      tensors.push_back(part.*member);
    }
    return torch::cat(tensors);
  };
  return {.boxes = all(&Candidates::boxes),
          .conf = all(&Candidates::conf),
          .classes = all(&Candidates::classes)};
}

Detections select(const Candidates& candidates, const YoloOutputOptions& o) {
  const Tensor scores = candidates.classes * candidates.conf.unsqueeze(1);
  const Tensor& decisive = o.selection == YoloSelection::kProduct ? scores : candidates.classes;
  Tensor found = (decisive > o.score_threshold).nonzero();  // [F,2]: anchor, class
  if (o.selection != YoloSelection::kConf) {
    const Tensor values = decisive.index({found.select(1, 0), found.select(1, 1)});
    found = found.index_select(0, top_k_indices(values, limit_of(o, values.size(0))));
  }
  const Tensor anchor = found.select(1, 0);
  const Tensor labels = found.select(1, 1);
  const Tensor boxes = candidates.boxes.index_select(0, anchor);
  const Tensor found_scores = scores.index({anchor, labels});
  const Tensor keep = batched_nms(boxes, found_scores, labels.contiguous(), o.nms_threshold,
                                  o.detections_per_image);
  return {.boxes = boxes.index_select(0, keep),
          .scores = found_scores.index_select(0, keep),
          .labels = labels.index_select(0, keep)};
}

}  // namespace

std::vector<Detections> yolo_detections(const std::vector<Tensor>& maps,
                                        const YoloLayout& layout,
                                        const YoloOutputOptions& options) {
  const torch::NoGradGuard no_grad;
  check_yolo_maps(maps, layout);
  std::vector<Detections> detections;
  for (std::int64_t image = 0; image < maps[0].size(0); ++image) {
    std::vector<Candidates> candidates;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      candidates.push_back(confident_anchors(maps[i][image], layout.scales[i], options));
    }
    detections.push_back(select(join(candidates), options));
  }
  return detections;
}

}  // namespace detforge
