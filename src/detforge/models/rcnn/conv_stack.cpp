#include "detforge/models/rcnn/conv_stack.h"

#include <fmt/format.h>

namespace detforge {

std::vector<ConvLayer> register_conv_stack(torch::nn::Module& owner,
                                           const std::string& name,
                                           const ConvStackOptions& options,
                                           std::int64_t channels) {
  std::vector<ConvLayer> convs;
  for (std::int64_t i = 1; i <= options.num_conv; ++i) {
    const ConvLayerOptions layer{.in_channels = i == 1 ? channels : options.conv_dim,
                                 .out_channels = options.conv_dim,
                                 .kernel = 3,
                                 .padding = 1,
                                 .norm = options.norm,
                                 .activation = Activation::kRelu};
    convs.push_back(owner.register_module(fmt::format("{}{}", name, i), ConvLayer(layer)));
  }
  return convs;
}

}  // namespace detforge
