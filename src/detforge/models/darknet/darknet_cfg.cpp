#include "detforge/models/darknet/darknet_cfg.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/models/darknet/darknet_sections.h"
#include "detforge/models/darknet/darknet_shapes.h"

namespace detforge {
namespace {

void note_unused(DarknetCfg& cfg, const CfgSection& section, const CfgReader& reader) {
  for (const std::string& setting : reader.unused()) {
    const std::string note = fmt::format("[{}] {}", section.kind, setting);
    if (std::find(cfg.unused.begin(), cfg.unused.end(), note) == cfg.unused.end()) {
      cfg.unused.push_back(note);  // three [yolo] say the same
    }
  }
}

void read_net(DarknetCfg& cfg, const CfgSection& section) {
  DETFORGE_CHECK(section.kind == "net" || section.kind == "network",
                 fmt::format("the first section is [{}], line {}", section.kind, section.line),
                 "begin the file with [net]");
  CfgReader reader(section, fmt::format("[{}]", section.kind));
  const DarknetShape input = read_darknet_net(reader);
  cfg.height = input.height;
  cfg.width = input.width;
  note_unused(cfg, section, reader);
}

void add_layer(DarknetCfg& cfg, const CfgSection& section) {
  const std::size_t index = cfg.layers.size();
  CfgReader reader(section, fmt::format("layer {} [{}]", index, section.kind));
  cfg.layers.push_back(read_darknet_layer(section, index, reader));
  try {
    infer_darknet_shape(cfg, index);
  } catch (Error& error) {
    error.add_where(darknet_layer_place(cfg, index));
    throw;
  }
  note_unused(cfg, section, reader);
}

}  // namespace

std::string darknet_layer_place(const DarknetCfg& cfg, std::size_t layer) {
  return fmt::format("layer {} [{}], line {}", layer, cfg.layers[layer].kind,
                     cfg.layers[layer].line);
}

std::int64_t DarknetCfg::size_divisibility() const {
  std::int64_t least_height = height;
  for (const DarknetLayer& layer : layers) {
    least_height = std::min(least_height, layer.out.height);
  }
  return (height + least_height - 1) / least_height;
}

DarknetCfg parse_darknet_cfg(std::string_view text) {
  const std::vector<CfgSection> sections = read_cfg_sections(text);
  DarknetCfg cfg;
  read_net(cfg, sections.front());
  for (std::size_t i = 1; i < sections.size(); ++i) {
    add_layer(cfg, sections[i]);
  }
  check_darknet_outputs(cfg);
  for (const DarknetLayer& layer : cfg.layers) {
    if (const auto* yolo = std::get_if<YoloSpec>(&layer.spec)) {
      cfg.num_classes = yolo->classes;
    }
  }
  return cfg;
}

DarknetCfg read_darknet_cfg(const std::filesystem::path& file) {
  const std::string text = files::read(file);  // its errors name the file
  try {
    return parse_darknet_cfg(text);
  } catch (Error& error) {
    error.add_where(file.string());
    throw;
  }
}

}  // namespace detforge
