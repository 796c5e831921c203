#include "detforge/ops/cpu/conv_plan.h"

#include <array>

#include <fmt/format.h>

#include "detforge/ops/cpu/winograd_by_filters.h"
#include "detforge/ops/cpu/winograd_tiles.h"

namespace detforge::cpu {
namespace {

using Pair = std::array<std::int64_t, 2>;

// Costs in multiply-adds of the micro-kernel's full speed, measured on one core of an AVX-512 Xeon
// (docs/decisions/0006); an AVX2 core gives nearly the same ratios.
constexpr double kGemmEfficiency = 0.72;
constexpr double kWinogradEfficiency = 0.85;
constexpr double kTransformCost = 24;  // of one of 36 values of one channel of one tile
constexpr double kFilterCost = 900;    // of one 3x3 filter, there or back

bool fits_winograd(const ConvShape& s, std::int64_t lanes) {
  return s.kernel == Pair{3, 3} && s.stride == Pair{1, 1} && s.padding == Pair{1, 1} &&
         s.dilation == Pair{1, 1} && s.in_channels % lanes == 0 && s.out_channels % lanes == 0;
}

double gemm_cost(const ConvShape& s) {
  return static_cast<double>(s.images * s.output(0) * s.output(1) * s.kernel[0] * s.kernel[1] *
                             s.in_channels * s.out_channels) /
         kGemmEfficiency;
}

double winograd_cost(const ConvShape& s) {
  const double tiles =
      static_cast<double>(s.images * ((s.input[0] + 3) / 4) * ((s.input[1] + 3) / 4));
  const auto in = static_cast<double>(s.in_channels), out = static_cast<double>(s.out_channels);
  return 36 * tiles * (in * out / kWinogradEfficiency + kTransformCost * (in + out)) +
         kFilterCost * in * out;
}

}  // namespace

const char* conv_algorithm_name(ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::kAten:
      return "aten";
    case ConvAlgorithm::kGemm:
      return "gemm";
    case ConvAlgorithm::kWinograd:
      return "winograd";
  }
  return "unknown";
}

ConvPlan plan_conv(const ConvShape& shape, const ConvKernels* kernels) {
  ConvAlgorithm algorithm = ConvAlgorithm::kGemm;
  if (kernels == nullptr || shape.groups != 1) {
    algorithm = ConvAlgorithm::kAten;
  } else if (fits_winograd(shape, kernels->lanes) && winograd_cost(shape) < gemm_cost(shape)) {
    algorithm = ConvAlgorithm::kWinograd;
  }
  return {algorithm, algorithm, algorithm};
}

std::string explain_plan(const ConvShape& shape, const ConvKernels* kernels) {
  if (kernels == nullptr) {
    return "the processor has no AVX2 and FMA";
  }
  if (shape.groups != 1) {
    return fmt::format("{} groups", shape.groups);
  }
  if (!fits_winograd(shape, kernels->lanes)) {
    return fmt::format("not 3x3, stride 1, padding 1 with channels in multiples of {}",
                       kernels->lanes);
  }
  const bool few =
      TileGrid({shape.images, shape.input[0], shape.input[1], shape.in_channels}).count() <=
      kFewTiles;
  return fmt::format("estimated {:.3g} million multiply-adds by winograd{}, {:.3g} by gemm",
                     winograd_cost(shape) / 1e6, few ? " (few tiles)" : "", gemm_cost(shape) / 1e6);
}

}  // namespace detforge::cpu
