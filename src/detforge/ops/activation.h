#pragma once

namespace detforge {

enum class Activation { kNone, kRelu, kLeakyRelu };

}  // namespace detforge
