#include "detforge/export/darknet_pack.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// The vectors of a convolution in the file's order.
std::vector<std::string> vector_names(const DarknetConvolution& convolution) {
  if (convolution.norm.empty()) {
    return {convolution.conv + ".bias"};
  }
  return {convolution.norm + ".bias", convolution.norm + ".weight",
          convolution.norm + ".running_mean", convolution.norm + ".running_var"};
}

void check_count(const DarknetConvolution& convolution, std::int64_t left, std::size_t index) {
  if (left >= convolution.values()) {
    return;
  }
  throw Error(fmt::format("the file ends inside convolution {}: it has {} of its {} floats, {} are "
                          "missing",
                          index, left, convolution.values(), convolution.values() - left),
              "give the .weights file of this very network: other filters, classes or groups of "
              "any layer before shift everything behind it, or the file is cut short")
      .at(__FILE__, __LINE__)
      .add_where(convolution.place);
}

}  // namespace

Value unpack_darknet(const DarknetFile& file, const std::vector<DarknetConvolution>& order) {
  Value state = Value::dict();
  std::int64_t position = 0;
  const auto take = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t count = c10::multiply_integers(shape);
    state.set(name, file.values.narrow(0, position, count).view(shape));
    position += count;
  };
  const std::int64_t total = file.values.numel();
  DETFORGE_CHECK(total > 0, "the file holds no weights", "get the file again from its source");
  for (std::size_t i = 0; i < order.size() && position < total; ++i) {
    check_count(order[i], total - position, i);
    for (const std::string& name : vector_names(order[i])) {
      take(name, {order[i].weight_shape.front()});
    }
    take(order[i].conv + ".weight", order[i].weight_shape);
  }
  DETFORGE_CHECK(
      position == total,
      fmt::format("{} floats are left over behind the last convolution ({})", total - position,
                  order.empty() ? "there is none" : order.back().place),
      "give the .weights file of this very network");
  return state;
}

DarknetFile pack_darknet(const Value& state,
                         const std::vector<DarknetConvolution>& order,
                         const DarknetFile& header) {
  std::vector<Tensor> parts;
  const Item item = state.item("the weights");
  const auto put = [&](const std::string& name) {
    parts.push_back(item[name].tensor().detach().to(at::kCPU, at::kFloat).flatten());
  };
  for (const DarknetConvolution& convolution : order) {
    for (const std::string& name : vector_names(convolution)) {
      put(name);
    }
    put(convolution.conv + ".weight");
  }
  DETFORGE_CHECK(!parts.empty(), "there is no convolution to write", "give a network with weights");
  DarknetFile file = header;
  file.values = at::cat(parts);
  return file;
}

}  // namespace detforge
