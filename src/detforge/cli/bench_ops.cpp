#include "detforge/cli/bench_ops.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/fma_peak.h"
#include "detforge/core/timer.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/nms.h"
#include "detforge/ops/roi_align.h"

namespace detforge {
namespace {

constexpr int kRepeats = 3;

double best_seconds(const std::function<void()>& run) {
  run();
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const Timer timer;
    run();
    best = std::min(best, timer.elapsed_s());
  }
  return best;
}

struct ConvCase {
  const char* name;
  std::int64_t in, out, kernel, stride, height, width;
};

/// The shapes that most of the step's time goes into.
constexpr ConvCase kConvs[] = {
    {"stem 7x7/2", 3, 64, 7, 2, 800, 1344},
    {"res2 1x1 64-256", 64, 256, 1, 1, 200, 336},
    {"res2 3x3 64", 64, 64, 3, 1, 200, 336},
    {"res3 3x3 128", 128, 128, 3, 1, 100, 168},
    {"res3 1x1 512-128", 512, 128, 1, 1, 100, 168},
    {"res4 3x3 256", 256, 256, 3, 1, 50, 84},
    {"res4 1x1 1024-256", 1024, 256, 1, 1, 50, 84},
    {"res5 3x3 512", 512, 512, 3, 1, 25, 42},
    {"FPN/RPN p2 3x3 256", 256, 256, 3, 1, 200, 336},
    {"FPN/RPN p3 3x3 256", 256, 256, 3, 1, 100, 168},
};

void print_line(
    const std::string& name, double forward_s, double backward_s, double gflop, double peak) {
  const double rate =
      3 * gflop / (forward_s + backward_s);  // backward does the work of two forwards
  fmt::print("{:<22} {:>10.1f} {:>10.1f} {:>10.0f} {:>8.0f}\n", name, 1e3 * forward_s,
             1e3 * backward_s, rate, 100 * rate / peak);
}

void bench_conv(const ConvCase& c, double peak) {
  const Tensor input = torch::rand({1, c.in, c.height, c.width}).requires_grad_(c.in > 3);
  const Tensor weight = torch::rand({c.out, c.in, c.kernel, c.kernel}).sub_(0.5).requires_grad_();
  const Tensor bias = torch::zeros({c.out}).requires_grad_();
  const Conv2dOptions options{.stride = {c.stride, c.stride},
                              .padding = {c.kernel / 2, c.kernel / 2},
                              .activation = Activation::kRelu};
  Tensor output;
  const double forward_s = best_seconds([&] { output = conv2d(input, weight, bias, options); });
  const Tensor gradient = torch::ones_like(output);
  std::vector<Tensor> wanted{weight, bias};
  if (input.requires_grad()) {
    wanted.push_back(input);
  }
  const double both_s = best_seconds(
      [&] { torch::autograd::grad({conv2d(input, weight, bias, options)}, wanted, {gradient}); });
  const double gflop = 2e-9 * static_cast<double>(output.numel() * c.in * c.kernel * c.kernel);
  print_line(c.name, forward_s, both_s - forward_s, gflop, peak);
}

void bench_linear(double peak) {
  const Tensor input = torch::rand({512, 12544}).requires_grad_();
  const Tensor weight = torch::rand({1024, 12544}).requires_grad_();
  const Tensor bias = torch::zeros({1024});
  Tensor output;
  const double forward_s =
      best_seconds([&] { output = linear(input, weight, bias, Activation::kRelu); });
  const Tensor gradient = torch::ones_like(output);
  const double both_s = best_seconds([&] {
    torch::autograd::grad({linear(input, weight, bias, Activation::kRelu)}, {input, weight},
                          {gradient});
  });
  print_line("fc1 512x12544-1024", forward_s, both_s - forward_s, 2e-9 * 512 * 12544 * 1024, peak);
}

Tensor random_boxes(std::int64_t count) {
  const Tensor corner = torch::rand({count, 2}) * torch::tensor({1200.0F, 700.0F});
  return torch::cat({corner, corner + 8 + torch::rand({count, 2}) * 200}, 1);
}

void bench_detection_ops() {
  const Tensor boxes = random_boxes(2000);
  const Tensor scores = torch::rand({2000});
  fmt::print("{:<22} {:>10.2f}\n", "nms 2000",
             1e3 * best_seconds([&] { nms(boxes, scores, 0.7); }));
  const Tensor features = torch::rand({1, 256, 200, 336}).requires_grad_();
  const Tensor rois = torch::cat({torch::zeros({512, 1}), random_boxes(512)}, 1);
  const RoiAlignOptions options{.output_size = {7, 7}, .spatial_scale = 0.25};
  Tensor pooled;
  const double forward_s = best_seconds([&] { pooled = roi_align(features, rois, options); });
  const Tensor gradient = torch::ones_like(pooled);
  const double both_s = best_seconds(
      [&] { torch::autograd::grad({roi_align(features, rois, options)}, {features}, {gradient}); });
  fmt::print("{:<22} {:>10.2f} {:>10.2f}\n", "roi_align p2 512", 1e3 * forward_s,
             1e3 * (both_s - forward_s));
}

}  // namespace

int bench_ops(int threads) {
  const double peak = measure_fma_peak_gflops(threads);
  fmt::print("{} threads, FMA peak {:.0f} GFLOP/s ({})\n\n{:<22} {:>10} {:>10} {:>10} {:>8}\n",
             threads, peak, fma_peak_instruction_set(), "op (800x1344, batch 1)", "fwd ms",
             "bwd ms", "GFLOP/s", "% peak");
  for (const ConvCase& c : kConvs) {
    bench_conv(c, peak);
  }
  bench_linear(peak);
  bench_detection_ops();
  return 0;
}

}  // namespace detforge
