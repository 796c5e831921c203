#include "support/torch/naive_ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <torch/types.h>

namespace detforge::test {
namespace {

/// What one output bin reads: visit(y, x, weight) for every corner of every sample.
void visit_bin(const float* roi,
               std::int64_t height,
               std::int64_t width,
               std::int64_t bin_y,
               std::int64_t bin_x,
               const RoiAlignOptions& options,
               const std::function<void(std::int64_t, std::int64_t, double)>& visit) {
  // Positions are computed in f32: the number of samples hangs on a rounded-up quotient.
  const auto scale = static_cast<float>(options.spatial_scale);
  const float shift = options.aligned ? 0.5F : 0.0F;
  const float x1 = roi[1] * scale - shift, y1 = roi[2] * scale - shift;
  float roi_width = roi[3] * scale - shift - x1, roi_height = roi[4] * scale - shift - y1;
  if (!options.aligned) {
    roi_width = std::max(roi_width, 1.0F);
    roi_height = std::max(roi_height, 1.0F);
  }
  const float bin_width = roi_width / static_cast<float>(options.output_size.width);
  const float bin_height = roi_height / static_cast<float>(options.output_size.height);
  const int columns =
      options.sampling_ratio > 0 ? options.sampling_ratio : static_cast<int>(std::ceil(bin_width));
  const int rows =
      options.sampling_ratio > 0 ? options.sampling_ratio : static_cast<int>(std::ceil(bin_height));
  for (int j = 0; j < rows; ++j) {
    for (int i = 0; i < columns; ++i) {
      double y = y1 + static_cast<float>(bin_y) * bin_height +
                 (static_cast<float>(j) + 0.5F) * bin_height / static_cast<float>(rows);
      double x = x1 + static_cast<float>(bin_x) * bin_width +
                 (static_cast<float>(i) + 0.5F) * bin_width / static_cast<float>(columns);
      if (y < -1.0 || y > static_cast<double>(height) || x < -1.0 ||
          x > static_cast<double>(width)) {
        continue;
      }
      y = std::clamp(y, 0.0, static_cast<double>(height - 1));
      x = std::clamp(x, 0.0, static_cast<double>(width - 1));
      const auto top = static_cast<std::int64_t>(std::floor(y)),
                 left = static_cast<std::int64_t>(std::floor(x));
      const std::int64_t bottom = std::min(top + 1, height - 1),
                         right = std::min(left + 1, width - 1);
      const double fy = y - static_cast<double>(top), fx = x - static_cast<double>(left);
      const double share = 1.0 / (rows * columns);
      visit(top, left, (1 - fy) * (1 - fx) * share);
      visit(top, right, (1 - fy) * fx * share);
      visit(bottom, left, fy * (1 - fx) * share);
      visit(bottom, right, fy * fx * share);
    }
  }
}

/// visit(roi, image, channel, bin y, bin x)
template <typename Visit>
void for_each_bin(const Tensor& rois,
                  std::int64_t channels,
                  const RoiAlignOptions& options,
                  Visit visit) {
  const auto roi = rois.accessor<float, 2>();
  for (std::int64_t r = 0; r < rois.size(0); ++r) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t by = 0; by < options.output_size.height; ++by) {
        for (std::int64_t bx = 0; bx < options.output_size.width; ++bx) {
          visit(r, static_cast<std::int64_t>(roi[r][0]), c, by, bx);
        }
      }
    }
  }
}

double naive_activation(double value, const Conv2dOptions& options) {
  if (options.activation == Activation::kRelu) {
    return std::max(value, 0.0);
  }
  return options.activation == Activation::kLeakyRelu && value < 0 ? value * options.leaky_slope
                                                                   : value;
}

}  // namespace

std::vector<std::int64_t> naive_nms(const Tensor& boxes,
                                    const Tensor& scores,
                                    const Tensor& groups,
                                    double iou_threshold) {
  const auto box = boxes.accessor<float, 2>();
  const auto score = scores.accessor<float, 1>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(boxes.size(0)));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return score[a] > score[b]; });
  std::vector<std::int64_t> kept;
  for (const std::int64_t candidate : order) {
    bool keep = true;
    for (const std::int64_t k : kept) {
      if (groups.defined() &&
          groups[k].item<std::int64_t>() != groups[candidate].item<std::int64_t>()) {
        continue;
      }
      const float w =
          std::min(box[k][2], box[candidate][2]) - std::max(box[k][0], box[candidate][0]);
      const float h =
          std::min(box[k][3], box[candidate][3]) - std::max(box[k][1], box[candidate][1]);
      const float inter = std::max(w, 0.0F) * std::max(h, 0.0F);
      const float area_k = (box[k][2] - box[k][0]) * (box[k][3] - box[k][1]);
      const float area_c =
          (box[candidate][2] - box[candidate][0]) * (box[candidate][3] - box[candidate][1]);
      const float iou = inter / (area_k + area_c - inter);
      keep = keep && !(static_cast<double>(iou) > iou_threshold);
    }
    if (keep) {
      kept.push_back(candidate);
    }
  }
  return kept;
}

Tensor naive_pairwise_iou(const Tensor& a, const Tensor& b) {
  const Tensor a64 = a.to(torch::kDouble), b64 = b.to(torch::kDouble);
  const auto p = a64.accessor<double, 2>(), q = b64.accessor<double, 2>();
  Tensor result = torch::zeros({a.size(0), b.size(0)}, torch::kDouble);
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    for (std::int64_t j = 0; j < b.size(0); ++j) {
      const double w = std::min(p[i][2], q[j][2]) - std::max(p[i][0], q[j][0]);
      const double h = std::min(p[i][3], q[j][3]) - std::max(p[i][1], q[j][1]);
      if (w > 0 && h > 0) {
        const double area_p = (p[i][2] - p[i][0]) * (p[i][3] - p[i][1]);
        const double area_q = (q[j][2] - q[j][0]) * (q[j][3] - q[j][1]);
        result[i][j] = w * h / (area_p + area_q - w * h);
      }
    }
  }
  return result;
}

Tensor naive_roi_align(const Tensor& features, const Tensor& rois, const RoiAlignOptions& options) {
  const Tensor f64 = features.detach().to(torch::kDouble).contiguous();
  Tensor pooled = torch::zeros(
      {rois.size(0), features.size(1), options.output_size.height, options.output_size.width},
      torch::kDouble);
  const auto map = f64.accessor<double, 4>();
  auto out = pooled.accessor<double, 4>();
  const Tensor roi_rows = rois.contiguous();
  for_each_bin(rois, features.size(1), options, [&](auto r, auto image, auto c, auto by, auto bx) {
    visit_bin(
        roi_rows.data_ptr<float>() + r * 5, features.size(2), features.size(3), by, bx, options,
        [&](auto y, auto x, double weight) { out[r][c][by][bx] += weight * map[image][c][y][x]; });
  });
  return pooled;
}

Tensor naive_roi_align_backward(const Tensor& grad_pooled,
                                const std::vector<std::int64_t>& features_shape,
                                const Tensor& rois,
                                const RoiAlignOptions& options) {
  const Tensor g64 = grad_pooled.detach().to(torch::kDouble).contiguous();
  Tensor grad = torch::zeros(features_shape, torch::kDouble);
  const auto g = g64.accessor<double, 4>();
  auto out = grad.accessor<double, 4>();
  const Tensor roi_rows = rois.contiguous();
  for_each_bin(rois, features_shape[1], options, [&](auto r, auto image, auto c, auto by, auto bx) {
    visit_bin(
        roi_rows.data_ptr<float>() + r * 5, features_shape[2], features_shape[3], by, bx, options,
        [&](auto y, auto x, double weight) { out[image][c][y][x] += weight * g[r][c][by][bx]; });
  });
  return grad;
}

Tensor naive_conv2d(const Tensor& input,
                    const Tensor& weight,
                    const Tensor& bias,
                    const Conv2dOptions& options,
                    const Tensor& residual) {
  const Tensor input64 = input.detach().to(torch::kDouble).contiguous();
  const Tensor weight64 = weight.detach().to(torch::kDouble).contiguous();
  const auto x = input64.accessor<double, 4>();
  const auto w = weight64.accessor<double, 4>();
  const auto [sy, sx] = options.stride;
  const auto [py, px] = options.padding;
  const auto [dy, dx] = options.dilation;
  const std::int64_t height = (x.size(2) + 2 * py - dy * (w.size(2) - 1) - 1) / sy + 1;
  const std::int64_t width = (x.size(3) + 2 * px - dx * (w.size(3) - 1) - 1) / sx + 1;
  Tensor result = torch::zeros({x.size(0), w.size(0), height, width}, torch::kDouble);
  auto out = result.accessor<double, 4>();
  const std::int64_t outputs_per_group = w.size(0) / options.groups;
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    for (std::int64_t o = 0; o < w.size(0); ++o) {
      const std::int64_t first_input = o / outputs_per_group * w.size(1);
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          double sum = bias.defined() ? bias[o].item<double>() : 0.0;
          sum += residual.defined() ? residual[n][o][i][j].item<double>() : 0.0;
          for (std::int64_t c = 0; c < w.size(1); ++c) {
            for (std::int64_t ky = 0; ky < w.size(2); ++ky) {
              for (std::int64_t kx = 0; kx < w.size(3); ++kx) {
                const std::int64_t yy = i * sy - py + ky * dy, xx = j * sx - px + kx * dx;
                const bool inside = yy >= 0 && yy < x.size(2) && xx >= 0 && xx < x.size(3);
                sum += inside ? w[o][c][ky][kx] * x[n][first_input + c][yy][xx] : 0.0;
              }
            }
          }
          out[n][o][i][j] = naive_activation(sum, options);
        }
      }
    }
  }
  return result;
}

}  // namespace detforge::test
