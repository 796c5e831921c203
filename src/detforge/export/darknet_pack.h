#pragma once

#include <vector>

#include "detforge/export/darknet_order.h"
#include "detforge/serialize/darknet_file.h"

namespace detforge {

/// The numbers of a file as a state dict (tensors share its memory). A file may end behind any
/// convolution, as darknet53.conv.74 does: then the rest is left out. Throws Error, naming the
/// convolution and the floats missing or left over, if it ends inside one or goes on behind the
/// last.
Value unpack_darknet(const DarknetFile& file, const std::vector<DarknetConvolution>& order);

/// The opposite: the numbers of a state dict, behind the version and count of `header`.
DarknetFile pack_darknet(const Value& state,
                         const std::vector<DarknetConvolution>& order,
                         const DarknetFile& header);

}  // namespace detforge
