#include "detforge/eval/gather_results.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "detforge/core/error.h"

namespace detforge {
namespace {

class Writer {
 public:
  template <typename Number>
  void add(const Number* values, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<Number>);
    const std::uint64_t size = count;
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes.append(reinterpret_cast<const char*>(values), count * sizeof(Number));
  }
  template <typename Number>
  void add(const Number& value) {
    add(&value, 1);
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename Number>
  std::vector<Number> list() {
    std::uint64_t size = 0;
    take(&size, sizeof(size));
    DETFORGE_CHECK(size <= bytes_.size() / sizeof(Number), "a rank's results are damaged",
                   "this is a bug, please report it");
    std::vector<Number> values(size);
    take(values.data(), size * sizeof(Number));
    return values;
  }
  template <typename Number>
  Number one() {
    const std::vector<Number> values = list<Number>();
    DETFORGE_CHECK(values.size() == 1, "a rank's results are damaged",
                   "this is a bug, please report it");
    return values.front();
  }

 private:
  void take(void* to, std::size_t size) {
    DETFORGE_CHECK(size <= bytes_.size() - at_, "a rank's results are cut short",
                   "this is a bug, please report it");
    if (size > 0) {
      std::memcpy(to, bytes_.data() + at_, size);
    }
    at_ += size;
  }
  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_bytes(const InferenceResult& result) {
  Writer writer;
  writer.add(result.detections.data(), result.detections.size());
  writer.add(result.image_ids.data(), result.image_ids.size());
  writer.add(result.dropped);
  for (const double seconds : {result.total_s, result.model_s, result.paste_s}) {
    writer.add(seconds);
  }
  writer.add(static_cast<std::int64_t>(result.masks.size()));
  for (std::size_t i = 0; i < result.masks.size(); ++i) {
    writer.add(result.masks[i].size);
    writer.add(result.masks[i].counts.data(), result.masks[i].counts.size());
  }
  return writer.bytes;
}

InferenceResult inference_result(const std::string& bytes) {
  Reader reader(bytes);
  InferenceResult result;
  result.detections = reader.list<EvalDetection>();
  result.image_ids = reader.list<std::int64_t>();
  result.dropped = reader.one<std::int64_t>();
  result.total_s = reader.one<double>();
  result.model_s = reader.one<double>();
  result.paste_s = reader.one<double>();
  const auto masks = reader.one<std::int64_t>();
  for (std::int64_t i = 0; i < masks; ++i) {
    const auto size = reader.one<ImageSize>();
    result.masks.emplace_back([&](std::vector<std::uint32_t>& counts) {
      const auto own = reader.list<std::uint32_t>();
      counts.insert(counts.end(), own.begin(), own.end());
      return size;
    });
  }
  return result;
}

InferenceResult gather_results(Communicator& communicator, InferenceResult own) {
  if (communicator.world_size() == 1) {
    return own;
  }
  InferenceResult all;
  for (const std::string& bytes : communicator.gather(to_bytes(own))) {
    const InferenceResult part = inference_result(bytes);
    all.detections.insert(all.detections.end(), part.detections.begin(), part.detections.end());
    all.image_ids.insert(all.image_ids.end(), part.image_ids.begin(), part.image_ids.end());
    all.masks.append(part.masks);
    all.dropped += part.dropped;
    all.total_s = std::max(all.total_s, part.total_s);
    all.model_s = std::max(all.model_s, part.model_s);
    all.paste_s = std::max(all.paste_s, part.paste_s);
  }
  return all;
}

}  // namespace detforge
