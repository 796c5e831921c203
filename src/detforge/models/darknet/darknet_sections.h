#pragma once

#include <string>

#include "detforge/models/darknet/cfg_reader.h"
#include "detforge/models/darknet/darknet_cfg.h"

namespace detforge {

/// Reads the section of layer `index` into a layer's kind, line and spec, without looking at the
/// layers before it but to see that they exist; shapes stay empty.
DarknetLayer read_darknet_layer(const CfgSection& section, std::size_t index, CfgReader& reader);

/// Reads [net]: the size of the input.
DarknetShape read_darknet_net(CfgReader& reader);

}  // namespace detforge
