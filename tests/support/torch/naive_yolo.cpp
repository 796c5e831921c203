#include "support/torch/naive_yolo.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>

namespace detforge::test {
namespace {

using Box = std::array<float, 4>;

Box box_at(const Tensor& boxes, std::int64_t row) {
  const auto values = boxes.accessor<float, 2>();
  return {values[row][0], values[row][1], values[row][2], values[row][3]};
}

/// Where anchor number `index` of all anchors stands.
struct Place {
  std::size_t scale, anchor;
  std::int64_t y, x;
};

std::vector<Place> all_places(const std::vector<YoloScale>& scales,
                              const std::vector<ImageSize>& grids) {
  std::vector<Place> places;
  for (std::size_t s = 0; s < scales.size(); ++s) {
    for (std::int64_t y = 0; y < grids[s].height; ++y) {
      for (std::int64_t x = 0; x < grids[s].width; ++x) {
        for (std::size_t a = 0; a < scales[s].anchors.size(); ++a) {
          places.push_back({s, a, y, x});
        }
      }
    }
  }
  return places;
}

bool is_centre_in(const Box& box, const Place& place, const std::vector<YoloScale>& scales) {
  const auto stride = static_cast<float>(scales[place.scale].stride);
  const float x = (box[0] + box[2]) * 0.5F;
  const float y = (box[1] + box[3]) * 0.5F;
  return std::floor(x / stride) == static_cast<float>(place.x) &&
         std::floor(y / stride) == static_cast<float>(place.y);
}

double bce(double logit, double target) {
  const double p = 1.0 / (1.0 + std::exp(-logit));
  return -(target * std::log(p) + (1.0 - target) * std::log(1.0 - p));
}

double sigmoid(double logit) {
  return 1.0 / (1.0 + std::exp(-logit));
}

/// The values that the network predicts for one anchor.
std::vector<double> values_at(const std::vector<Tensor>& maps,
                              const YoloLayout& layout,
                              std::int64_t image,
                              const Place& place) {
  std::vector<double> values;
  const std::int64_t first = static_cast<std::int64_t>(place.anchor) * layout.values_per_anchor();
  for (std::int64_t i = 0; i < layout.values_per_anchor(); ++i) {
    values.push_back(maps[place.scale][image][first + i][place.y][place.x].item<double>());
  }
  return values;
}

struct Centre {
  double x, y, width, height;
};
Centre centre_of(const Box& box) {
  return {(static_cast<double>(box[0]) + box[2]) / 2, (static_cast<double>(box[1]) + box[3]) / 2,
          static_cast<double>(box[2]) - box[0], static_cast<double>(box[3]) - box[1]};
}

Box predicted_box(const std::vector<double>& v, const Box& anchor, const YoloScale& scale) {
  const Centre a = centre_of(anchor);
  const auto stride = static_cast<double>(scale.stride);
  const auto offset = [&](double logit) {
    return (sigmoid(logit) * scale.scale_xy - (scale.scale_xy - 1) / 2 - 0.5) * stride;
  };
  const double x = a.x + offset(v[0]), y = a.y + offset(v[1]);
  const double w = a.width * std::exp(v[2]), h = a.height * std::exp(v[3]);
  return {static_cast<float>(x - w / 2), static_cast<float>(y - h / 2),
          static_cast<float>(x + w / 2), static_cast<float>(y + h / 2)};
}

struct Terms {
  double cls = 0, conf = 0, xy = 0, wh = 0;
};

void add_box_terms(const std::vector<double>& values,
                   const Centre& anchor,
                   const Centre& gt,
                   const YoloScale& scale,
                   double weight,
                   Terms& terms) {
  const auto position = [&scale](double from, double to) {
    const double offset = (to - from) / static_cast<double>(scale.stride) + 0.5;
    return std::clamp((offset + (scale.scale_xy - 1) / 2) / scale.scale_xy, 1e-6, 1 - 1e-6);
  };
  terms.xy += weight *
              (bce(values[0], position(anchor.x, gt.x)) + bce(values[1], position(anchor.y, gt.y)));
  terms.wh += weight * (std::pow(values[2] - std::log(gt.width / anchor.width), 2) +
                        std::pow(values[3] - std::log(gt.height / anchor.height), 2));
}

std::vector<ImageSize> grids_of(const std::vector<Tensor>& maps) {
  std::vector<ImageSize> grids;
  for (const Tensor& map : maps) {
    grids.push_back({map.size(2), map.size(3)});
  }
  return grids;
}

/// Roles, and objects whose class each anchor learns, whichever the assigner.
NaiveDarknetAssignment assign(const std::vector<Tensor>& maps,
                              const YoloLayout& layout,
                              std::int64_t image,
                              const Tensor& gt_boxes,
                              const YoloLossOptions& options) {
  const std::vector<ImageSize> grids = grids_of(maps);
  const auto places = all_places(layout.scales, grids);
  if (options.assigner == YoloAssigner::kDarknet) {
    const auto anchors = naive_anchors(layout.scales, grids);
    Tensor predicted = torch::empty({static_cast<std::int64_t>(anchors.size()), 4});
    for (std::size_t i = 0; i < anchors.size(); ++i) {
      const Box box = predicted_box(values_at(maps, layout, image, places[i]), anchors[i],
                                    layout.scales[places[i].scale]);
      for (std::int64_t c = 0; c < 4; ++c) {
        predicted[static_cast<std::int64_t>(i)][c] = box[static_cast<std::size_t>(c)];
      }
    }
    return naive_darknet_assign(layout.scales, grids, predicted, gt_boxes,
                                options.darknet.ignore_iou);
  }
  NaiveDarknetAssignment result{naive_grid_assign(layout.scales, grids, gt_boxes, options.grid),
                                {}};
  for (const std::int64_t role : result.roles) {
    result.objects.push_back(role > 0 ? std::vector{role - 1} : std::vector<std::int64_t>{});
  }
  return result;
}

}  // namespace

std::vector<Box> naive_anchors(const std::vector<YoloScale>& scales,
                               const std::vector<ImageSize>& grids) {
  std::vector<Box> anchors;
  for (const Place& place : all_places(scales, grids)) {
    const YoloScale& scale = scales[place.scale];
    const auto [w, h] = scale.anchors[place.anchor];
    const double x = (static_cast<double>(place.x) + 0.5) * static_cast<double>(scale.stride);
    const double y = (static_cast<double>(place.y) + 0.5) * static_cast<double>(scale.stride);
    anchors.push_back({static_cast<float>(x - w / 2), static_cast<float>(y - h / 2),
                       static_cast<float>(x + w / 2), static_cast<float>(y + h / 2)});
  }
  return anchors;
}

float naive_iou(const Box& a, const Box& b) {
  const float width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), 0.0F);
  const float height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), 0.0F);
  const float inter = width * height;
  const float joint = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter;
  return inter / std::max(joint, 1e-6F);
}

std::vector<std::int64_t> naive_grid_assign(const std::vector<YoloScale>& scales,
                                            const std::vector<ImageSize>& grids,
                                            const Tensor& gt_boxes,
                                            const GridAssignOptions& options) {
  const auto anchors = naive_anchors(scales, grids);
  const auto places = all_places(scales, grids);
  const std::int64_t objects = gt_boxes.size(0);
  std::vector<std::int64_t> roles(anchors.size(), 0);
  std::vector<bool> responsible(anchors.size(), false);
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    float highest = 0;
    for (std::int64_t g = 0; g < objects; ++g) {
      const Box gt = box_at(gt_boxes, g);
      highest = std::max(highest, naive_iou(gt, anchors[i]));
      responsible[i] = responsible[i] || is_centre_in(gt, places[i], scales);
    }
    roles[i] = static_cast<double>(highest) > options.negative_iou ? -1 : 0;
  }
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    float highest = -1;
    for (std::int64_t g = 0; responsible[i] && g < objects; ++g) {
      const float iou = naive_iou(box_at(gt_boxes, g), anchors[i]);
      if (iou > highest) {
        highest = iou;
        roles[i] = static_cast<double>(iou) > options.positive_iou ? g + 1 : roles[i];
      }
    }
  }
  for (std::int64_t g = 0; g < objects; ++g) {
    const Box gt = box_at(gt_boxes, g);
    float highest = -1;
    for (std::size_t i = 0; i < anchors.size(); ++i) {
      highest = responsible[i] ? std::max(highest, naive_iou(gt, anchors[i])) : highest;
    }
    for (std::size_t i = 0; i < anchors.size(); ++i) {
      if (responsible[i] && static_cast<double>(highest) > options.min_positive_iou &&
          naive_iou(gt, anchors[i]) == highest) {
        roles[i] = g + 1;
      }
    }
  }
  return roles;
}

NaiveDarknetAssignment naive_darknet_assign(const std::vector<YoloScale>& scales,
                                            const std::vector<ImageSize>& grids,
                                            const Tensor& predicted,
                                            const Tensor& gt_boxes,
                                            double ignore_iou) {
  const auto places = all_places(scales, grids);
  NaiveDarknetAssignment result{std::vector<std::int64_t>(places.size(), 0),
                                std::vector<std::vector<std::int64_t>>(places.size())};
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::int64_t g = 0; g < gt_boxes.size(0); ++g) {
      const float iou =
          naive_iou(box_at(predicted, static_cast<std::int64_t>(i)), box_at(gt_boxes, g));
      result.roles[i] = static_cast<double>(iou) > ignore_iou ? -1 : result.roles[i];
    }
  }
  for (std::int64_t g = 0; g < gt_boxes.size(0); ++g) {
    const Box gt = box_at(gt_boxes, g);
    const Centre centre = centre_of(gt);
    const auto overlap = [&centre](const std::array<double, 2>& anchor) {
      const double inter = std::min(anchor[0], centre.width) * std::min(anchor[1], centre.height);
      return inter / (anchor[0] * anchor[1] + centre.width * centre.height - inter);
    };
    double highest = 0;
    for (const YoloScale& scale : scales) {
      for (const auto& anchor : scale.anchors) {
        highest = std::max(highest, overlap(anchor));
      }
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (is_centre_in(gt, places[i], scales) &&
          overlap(scales[places[i].scale].anchors[places[i].anchor]) == highest) {
        result.roles[i] = g + 1;
        result.objects[i].push_back(g);
      }
    }
  }
  return result;
}

std::array<double, 4> naive_yolo_losses(const std::vector<Tensor>& maps,
                                        const YoloLayout& layout,
                                        const std::vector<Targets>& targets,
                                        const YoloLossOptions& options) {
  const std::vector<ImageSize> grids = grids_of(maps);
  const auto anchors = naive_anchors(layout.scales, grids);
  const auto places = all_places(layout.scales, grids);
  Terms terms;
  for (std::size_t image = 0; image < targets.size(); ++image) {
    const auto n = static_cast<std::int64_t>(image);
    const Targets& objects = targets[image];
    const auto assignment = assign(maps, layout, n, objects.boxes, options);
    for (std::size_t i = 0; i < anchors.size(); ++i) {
      const std::vector<double> values = values_at(maps, layout, n, places[i]);
      const std::int64_t role = assignment.roles[i];
      terms.conf += role < 0 ? 0.0 : bce(values[4], role > 0 ? 1.0 : 0.0);
      if (role <= 0) {
        continue;
      }
      const YoloScale& scale = layout.scales[places[i].scale];
      const Centre gt = centre_of(box_at(objects.boxes, role - 1));
      const ImageSize grid = grids[places[i].scale];
      const auto image_area =
          static_cast<double>(grid.height * grid.width * scale.stride * scale.stride);
      const bool is_darknet = options.assigner == YoloAssigner::kDarknet;
      add_box_terms(values, centre_of(anchors[i]), gt, scale,
                    is_darknet ? 2 - gt.width * gt.height / image_area : 1.0, terms);
      for (std::int64_t k = 0; k < layout.num_classes; ++k) {
        bool is_class = false;
        for (const std::int64_t object : assignment.objects[i]) {
          is_class = is_class || objects.labels[object].item<std::int64_t>() == k;
        }
        terms.cls += bce(values[static_cast<std::size_t>(5 + k)], is_class ? 1.0 : 0.0);
      }
    }
  }
  return {terms.cls * options.cls_weight, terms.conf * options.conf_weight,
          terms.xy * options.xy_weight, terms.wh * options.wh_weight};
}

}  // namespace detforge::test
