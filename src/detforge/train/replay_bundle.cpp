#include "detforge/train/replay_bundle.h"

#include <charconv>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/serialize/torch_file.h"

namespace detforge {
namespace {

Value size_value(const ImageSize& size) {
  return Value::list({size.height, size.width});
}

ImageSize read_size(const Item& item) {
  return {.height = item[0].integer(), .width = item[1].integer()};
}

template <typename Range, typename Convert>
Value list_of(const Range& range, const Convert& convert) {
  Value list = Value::list();
  for (const auto& item : range) {
    list.append(convert(item));
  }
  return list;
}

/// Calls visit(item) for each of a list.
template <typename Visit>
void for_each_item(const Item& list, const Visit& visit) {
  for (std::size_t i = 0; i < list.list().size(); ++i) {
    visit(list[static_cast<std::int64_t>(i)]);
  }
}

Value mask_value(const Segmentation& mask) {
  const Value polygons = list_of(mask.polygons, [](const std::vector<double>& polygon) {
    return Value(torch::tensor(polygon, torch::kDouble));
  });
  const std::vector<std::int64_t> counts(mask.rle.counts.begin(), mask.rle.counts.end());
  return Value::dict()
      .set("polygons", polygons)
      .set("rle_size", size_value(mask.rle.size))
      .set("rle_counts", torch::tensor(counts, torch::kLong));
}

Segmentation read_mask(const Item& item) {
  Segmentation mask;
  for_each_item(item["polygons"], [&](const Item& polygon) {
    const Tensor values = polygon.tensor().to(torch::kDouble).contiguous();
    const double* data = values.data_ptr<double>();
    mask.polygons.emplace_back(data, data + values.numel());
  });
  mask.rle.size = read_size(item["rle_size"]);
  const Tensor counts = item["rle_counts"].tensor().to(torch::kLong).contiguous();
  const auto* data = counts.data_ptr<std::int64_t>();
  mask.rle.counts.assign(data, data + counts.numel());
  return mask;
}

Value targets_value(const Targets& targets) {
  return Value::dict()
      .set("boxes", targets.boxes)
      .set("labels", targets.labels)
      .set("masks", list_of(targets.masks, mask_value));
}

Targets read_targets(const Item& item) {
  Targets targets{.boxes = item["boxes"].tensor(), .labels = item["labels"].tensor()};
  for_each_item(item["masks"], [&](const Item& mask) { targets.masks.push_back(read_mask(mask)); });
  return targets;
}

std::string key_text(std::uint64_t key) {
  return fmt::format("{:016x}", key);
}

std::uint64_t read_key(const Item& item) {
  const std::string& text = item.string();
  std::uint64_t key = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), key, 16);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    throw Error("\"" + text + "\" is no random key", "use a bundle that a training run wrote")
        .add_where(item.path());
  }
  return key;
}

Value batch_value(const Batch& batch) {
  const ImageBatch& images = batch.images;
  const auto same = [](const auto& item) { return Value(item); };
  return Value::dict()
      .set("images", images.images)
      .set("sizes", list_of(images.sizes, size_value))
      .set("image_ids", list_of(images.image_ids, same))
      .set("paths", list_of(images.paths, same))
      .set("rng_keys", list_of(images.rng_keys, key_text))
      .set("targets", list_of(batch.targets, targets_value));
}

Batch read_batch(const Item& item) {
  Batch batch;
  ImageBatch& images = batch.images;
  images.images = item["images"].tensor();
  for_each_item(item["sizes"], [&](const Item& size) { images.sizes.push_back(read_size(size)); });
  images.original_sizes = images.sizes;
  for_each_item(item["image_ids"],
                [&](const Item& id) { images.image_ids.push_back(id.integer()); });
  for_each_item(item["paths"], [&](const Item& path) { images.paths.push_back(path.string()); });
  for_each_item(item["rng_keys"],
                [&](const Item& key) { images.rng_keys.push_back(read_key(key)); });
  for_each_item(item["targets"],
                [&](const Item& target) { batch.targets.push_back(read_targets(target)); });
  return batch;
}

}  // namespace

void write_replay_bundle(const std::filesystem::path& path, const ReplayBundle& bundle) {
  Value losses = Value::dict();
  for (const auto& [name, value] : bundle.losses) {
    losses.set(name, value);
  }
  write_torch_file(path, Value::dict()
                             .set("iteration", bundle.iteration)
                             .set("lr", bundle.lr)
                             .set("loss_scale", bundle.loss_scale)
                             .set("nonfinite", bundle.nonfinite)
                             .set("losses", losses)
                             .set("batch", batch_value(bundle.batch))
                             .set("model", bundle.model)
                             .set("config", bundle.config));
}

ReplayBundle read_replay_bundle(const std::filesystem::path& path) {
  const Value file = read_torch_file(path);
  const Item root = file.item(path.string());
  ReplayBundle bundle{.iteration = root["iteration"].integer(),
                      .lr = root["lr"].number(),
                      .loss_scale = root["loss_scale"].number(),
                      .nonfinite = root["nonfinite"].string(),
                      .losses = {},
                      .batch = read_batch(root["batch"]),
                      .model = root["model"].value(),
                      .config = root["config"].string()};
  for (const Value::Entry& entry : root["losses"].dict()) {
    const std::string& name = Item(entry.key, root.path() + " losses").string();
    bundle.losses.emplace_back(name, Item(entry.value, root.path() + " losses").number());
  }
  return bundle;
}

}  // namespace detforge
