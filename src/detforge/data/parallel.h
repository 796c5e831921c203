#pragma once

#include <cstddef>
#include <functional>

namespace detforge {

/// Calls work(i) for every i below `count`, on the calling thread and a few more (at most 8; none
/// for small counts): for reading many small files, where waiting is most of the time. `work` must
/// be safe to call at once for different i. If calls throw, the rest may be skipped, and the
/// exception of the smallest i that was seen is thrown again.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace detforge
