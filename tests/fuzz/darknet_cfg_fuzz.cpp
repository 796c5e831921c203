// Darknet .cfg files of any text: what is accepted is a network whose numbers fit together, and no
// text makes it large.

#include "detforge/models/darknet/darknet_cfg.h"
#include "detforge/models/darknet/darknet_shapes.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

void look_at(const DarknetCfg& cfg) {
  require(!cfg.layers.empty() && cfg.num_classes > 0, "a network has layers and classes");
  require(cfg.size_divisibility() > 0, "and a size that its inputs are multiples of");
  for (std::size_t i = 0; i < cfg.layers.size(); ++i) {
    const DarknetLayer& layer = cfg.layers[i];
    require(layer.line > 0, "a layer has a line");
    require(layer.out.channels > 0 && layer.out.height > 0 && layer.out.width > 0,
            "a layer has an output");
    for (const std::size_t input : darknet_inputs(cfg, i)) {
      require(input < i, "a layer reads those before it");
    }
    if (const auto* yolo = std::get_if<YoloSpec>(&layer.spec)) {
      require(yolo->stride * layer.in.height == cfg.height, "a map has a whole stride");
      require(yolo->classes == cfg.num_classes, "all maps have the same classes");
    }
  }
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  accepts([&] { look_at(parse_darknet_cfg({reinterpret_cast<const char*>(data), size})); });
  return 0;
}
