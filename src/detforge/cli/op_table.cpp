#include "detforge/cli/op_table.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace detforge {
namespace {

constexpr std::size_t kLines = 20;

OpTime sum_from(const std::vector<OpTime>& ops, std::size_t first) {
  OpTime sum{.name = fmt::format("{} other ops", ops.size() - first)};
  for (std::size_t i = first; i < ops.size(); ++i) {
    sum.calls += ops[i].calls;
    sum.self_s += ops[i].self_s;
  }
  return sum;
}

}  // namespace

nlohmann::ordered_json print_op_table(const std::vector<OpTime>& by_self_time, double seconds) {
  const std::size_t shown = std::min(kLines, by_self_time.size());
  std::vector<OpTime> lines(by_self_time.begin(),
                            by_self_time.begin() + static_cast<std::ptrdiff_t>(shown));
  if (shown < by_self_time.size()) {
    lines.push_back(sum_from(by_self_time, shown));
  }
  lines.push_back({.name = "outside of ops",
                   .calls = 0,
                   .self_s = std::max(0.0, seconds - sum_from(by_self_time, 0).self_s)});
  fmt::print("\none step of {:.3f} s by op\n{:<44} {:>7} {:>10} {:>6}\n", seconds, "op", "calls",
             "self ms", "%");
  auto json = nlohmann::ordered_json::array();
  for (const OpTime& op : lines) {
    fmt::print("{:<44} {:>7} {:>10.2f} {:>6.1f}\n", op.name, op.calls, 1e3 * op.self_s,
               100 * op.self_s / seconds);
    json.push_back({{"name", op.name}, {"calls", op.calls}, {"self_s", op.self_s}});
  }
  return json;
}

}  // namespace detforge
