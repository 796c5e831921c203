#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// True for a map [N,C,H,W] whose values lie as NHWC and not also as NCHW (as they do with one
/// channel or one pixel): then ops run their channels-last code and give channels-last results.
inline bool is_channels_last(const Tensor& map) {
  return !map.is_contiguous() && map.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// The layout that `map` has, or would be copied to.
inline at::MemoryFormat layout_of(const Tensor& map) {
  return is_channels_last(map) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

}  // namespace detforge
