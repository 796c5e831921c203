// Darknet .weights files of any bytes, cut into convolutions of any small shape: what fits one
// network is written again as it was read.

#include <vector>

#include "detforge/export/darknet_pack.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

std::vector<DarknetConvolution> take_order(ByteSource& source) {
  std::vector<DarknetConvolution> order;
  for (std::int64_t left = source.take_in(0, 3); left > 0; --left) {
    DarknetConvolution convolution;
    const std::string layer = "layers." + std::to_string(left);
    convolution.conv = layer + ".conv";
    convolution.norm = source.take_in(0, 1) == 1 ? layer + ".bn" : "";
    convolution.weight_shape = {source.take_in(1, 4), source.take_in(1, 4), 1, 1};
    convolution.place = convolution.conv;
    order.push_back(convolution);
  }
  return order;
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  ByteSource source(data, size);
  std::vector<DarknetConvolution> order = take_order(source);
  accepts([&] {
    const DarknetFile file = read_darknet_file(source.rest());
    const Value state = unpack_darknet(file, order);
    const DarknetFile again = to_darknet_file(to_value(file));
    require(again.seen == file.seen && again.minor == file.minor, "a header is kept");
    std::int64_t floats = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      floats += order[i].values();
      if (floats == file.values.numel()) {
        order.resize(i + 1);  // a file may end behind any convolution
      }
    }
    const DarknetFile packed = pack_darknet(state, order, file);
    require(packed.values.numel() == file.values.numel(), "no number is lost");
    require(
        std::memcmp(packed.values.data_ptr(), file.values.data_ptr(), file.values.nbytes()) == 0,
        "no number changes");
  });
  return 0;
}
