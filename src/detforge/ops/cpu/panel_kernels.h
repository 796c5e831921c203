#pragma once

#include <type_traits>

#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/cpu/micro_kernel.h"

/// Products of whole panels, packing and storing: the parts that every convolution shares.
namespace detforge::cpu {
namespace {

using Register = Vector::Register;
constexpr std::int64_t kLanes = Vector::kLanes;

/// The smaller one. (std::min is a template that might be linked from here into other files.)
inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Tiles of nearly equal height: a last tile of one or two rows would waste the pipeline.
template <TileLayout kLayout>
void multiply_panel(const PanelProduct& p) {
  const std::int64_t tiles = (p.rows + Vector::kTileRows - 1) / Vector::kTileRows;
  std::int64_t row = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t end = (tile + 1) * p.rows / tiles;
    const float* a = p.a + (kLayout == TileLayout::kRows ? row * p.a_stride : row);
    tile_function<kLayout>(end - row)(p.depth, a, p.a_stride, p.b, p.c + row * p.c_stride,
                                      p.c_stride, p.accumulate);
    row = end;
  }
}

/// activation(x + bias + residual) of one vector.
template <typename T>
inline Register finish(
    Register x, Register bias, const T* residual, std::int64_t count, const Epilogue& e) {
  x = Vector::add(x, bias);
  if (residual != nullptr) {
    x = Vector::add(x, load_some(residual, count));
  }
  switch (e.activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return Vector::max(Vector::zero(), x);  // in this order NaN stays NaN
    case Activation::kLeakyRelu:
      return Vector::select_positive(x, x, Vector::mul(x, Vector::set(e.leaky_slope)));
  }
  return x;
}

inline Register load_bias(const float* bias, std::int64_t count) {
  return bias == nullptr ? Vector::zero() : Vector::load_part(bias, count);
}

template <typename T>
void store_panel_as(const PanelStore& panel, const Epilogue& e) {
  const T* residuals = e.residual.as<T>();
  T* output = panel.output.as<T>();
  for (std::int64_t column = 0; column < panel.columns; column += kLanes) {
    const std::int64_t count = smaller(kLanes, panel.columns - column);
    const Register bias = load_bias(e.bias == nullptr ? nullptr : e.bias + column, count);
    for (std::int64_t i = 0; i < panel.rows; ++i) {
      const std::int64_t at = panel.offsets[i] + column;
      const T* residual = residuals == nullptr ? nullptr : residuals + at;
      store_some(
          output + at,
          finish(Vector::load(panel.sums + i * kTileColumns + column), bias, residual, count, e),
          count);
    }
  }
}

void store_panel(const PanelStore& panel, const Epilogue& e) {
  for_storage(panel.output.storage(),
              [&](auto* type) { store_panel_as<std::remove_pointer_t<decltype(type)>>(panel, e); });
}

void load_values(const ConstMap& from, std::int64_t count, float* to) {
  for_storage(from.storage(), [&](auto* type) {
    const auto* values = from.as<std::remove_pointer_t<decltype(type)>>();
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Vector::store(to + i, Vector::load(values + i));
    }
    if (i < count) {
      Vector::store_part(to + i, load_part(values + i, count - i), count - i);
    }
  });
}

void store_values(const float* from, std::int64_t count, const Map& to) {
  for_storage(to.storage(), [&](auto* type) {
    auto* values = to.as<std::remove_pointer_t<decltype(type)>>();
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Vector::store(values + i, Vector::load(from + i));
    }
    if (i < count) {
      store_part(values + i, Vector::load_part(from + i, count - i), count - i);
    }
  });
}

void pack_panel(const float* source,
                std::int64_t depth,
                std::int64_t columns,
                std::int64_t k_stride,
                std::int64_t n_stride,
                float* panel) {
  for (std::int64_t lane = 0; lane < kTileColumns; lane += kLanes) {
    const std::int64_t count = smaller(kLanes, columns - lane);
    const float* from = source + lane * n_stride;
    const auto stride = static_cast<std::int32_t>(n_stride);
    for (std::int64_t k = 0; k < depth; ++k) {
      Register values = Vector::zero();
      if (count > 0) {
        values = n_stride == 1 ? Vector::load_part(from + k * k_stride, count)
                               : Vector::gather(from + k * k_stride, stride, count);
      }
      Vector::store(panel + k * kTileColumns + lane, values);
    }
  }
}

template <typename T>
void add_rows_of(const T* values, std::int64_t rows, std::int64_t channels, float* bias_sum) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    const std::int64_t count = smaller(kLanes, channels - c);
    Register sum = Vector::load_part(bias_sum + c, count);
    for (std::int64_t r = 0; r < rows; ++r) {
      sum = Vector::add(sum, load_some(values + r * channels + c, count));
    }
    Vector::store_part(bias_sum + c, sum, count);
  }
}

void add_rows(const ConstMap& values, std::int64_t rows, std::int64_t channels, float* bias_sum) {
  for_storage(values.storage(), [&](auto* type) {
    add_rows_of(values.as<std::remove_pointer_t<decltype(type)>>(), rows, channels, bias_sum);
  });
}

float scale_gradient(
    const float* gradient, const float* weight, std::int64_t count, float scale, float* scaled) {
  constexpr int kSums = 4;  // more than one, so that additions need not wait for each other
  const Register factor = Vector::set(scale);
  Register sums[kSums] = {Vector::zero(), Vector::zero(), Vector::zero(), Vector::zero()};
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    for (int s = 0; s < kSums; ++s) {
      const std::int64_t at = i + s * kLanes;
      const Register g = Vector::load(gradient + at);
      sums[s] = Vector::fma(g, Vector::load(weight + at), sums[s]);
      Vector::store(scaled + at, Vector::mul(g, factor));
    }
  }
  for (; i < count; i += kLanes) {
    const std::int64_t part = smaller(kLanes, count - i);
    const Register g = Vector::load_part(gradient + i, part);
    sums[0] = Vector::fma(g, Vector::load_part(weight + i, part), sums[0]);
    Vector::store_part(scaled + i, Vector::mul(g, factor), part);
  }
  alignas(64) float lanes[kLanes];
  Vector::store(lanes, Vector::add(Vector::add(sums[0], sums[1]), Vector::add(sums[2], sums[3])));
  float sum = 0;
  for (const float lane : lanes) {
    sum += lane;
  }
  return sum;
}

template <typename T>
void activation_gradient_as(const ActivationGradient& a, float* bias_sum) {
  const Register negative = Vector::set(a.slope);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int64_t row = r * a.channels;
    const T* output = a.output.as<T>() + row;
    const T* grad_output = a.grad_output.as<T>() + row;
    T* gradient = a.gradient.as<T>() + row;
    for (std::int64_t c = 0; c < a.channels; c += kLanes) {
      const std::int64_t count = smaller(kLanes, a.channels - c);
      const Register g = load_some(grad_output + c, count);
      // Not 0 * g for a ReLU: that would make NaN of an infinite gradient.
      const Register below = a.slope == 0.0F ? Vector::zero() : Vector::mul(g, negative);
      const Register value = Vector::select_positive(load_some(output + c, count), g, below);
      store_some(gradient + c, value, count);
      if (bias_sum != nullptr) {
        Vector::store_part(bias_sum + c, Vector::add(Vector::load_part(bias_sum + c, count), value),
                           count);
      }
    }
  }
}

void activation_gradient(const ActivationGradient& a, float* bias_sum) {
  for_storage(a.gradient.storage(), [&](auto* type) {
    activation_gradient_as<std::remove_pointer_t<decltype(type)>>(a, bias_sum);
  });
}

}  // namespace
}  // namespace detforge::cpu
