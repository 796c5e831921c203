#include "support/torch/model_case.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/torch/tensors.h"

namespace detforge::test {
namespace {

using Json = nlohmann::json;

constexpr const char* kCounter = "num_batches_tracked";  // nothing is computed from it

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a64(const std::string& text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

void load_npz(const std::filesystem::path& path, torch::nn::Module& model) {
  Npz weights = read_npz(path);
  std::erase_if(weights, [](const auto& item) { return item.first.ends_with(kCounter); });
  const auto state = state_of(model);
  for (const auto& [name, tensor] : state) {
    DETFORGE_CHECK(weights.count(name) == 1, path.string() + " has no " + name, "");
    tensor.copy_(to_tensor(weights.at(name)));
  }
  DETFORGE_CHECK(weights.size() == state.size(),
                 path.string() + " has entries that the model lacks", "");
}

void load_formula(const Json& description, torch::nn::Module& model) {
  const std::uint64_t seed = description.at("seed");
  const Json& ranges = description.at("weight_ranges");
  for (const auto& [name, tensor] : state_of(model)) {
    const Json& range = ranges.at(name);
    tensor.copy_(formula_values(name, seed, range.at(0), range.at(1), tensor.sizes()));
  }
}

std::int64_t round_up(std::int64_t value) {
  return (value + 31) / 32 * 32;
}

}  // namespace

void load_case_weights(const ParityCase& parity_case, torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  const auto weights = parity_case.folder / "weights.npz";
  if (std::filesystem::exists(weights)) {
    load_npz(weights, model);
  } else {
    load_formula(parity_case.description, model);
  }
}

ImageBatch case_images(const Npz& inputs, const std::function<Tensor(const Tensor&)>& normalise) {
  ImageBatch batch;
  std::vector<Tensor> images;
  std::int64_t height = 0;
  std::int64_t width = 0;
  for (std::size_t i = 0; inputs.count("image" + std::to_string(i)) == 1; ++i) {
    images.push_back(
        normalise(to_tensor(inputs.at("image" + std::to_string(i))).to(torch::kFloat)));
    batch.sizes.push_back({images.back().size(1), images.back().size(2)});
    batch.image_ids.push_back(static_cast<std::int64_t>(i));
    batch.paths.push_back("image" + std::to_string(i));
    batch.rng_keys.push_back(i);
    height = std::max(height, round_up(images.back().size(1)));
    width = std::max(width, round_up(images.back().size(2)));
  }
  batch.original_sizes = batch.sizes;
  batch.images = torch::zeros({batch.count(), 3, height, width});
  for (std::size_t i = 0; i < images.size(); ++i) {
    batch.images[static_cast<std::int64_t>(i)]
        .slice(1, 0, images[i].size(1))
        .slice(2, 0, images[i].size(2))
        .copy_(images[i]);
  }
  return batch;
}

std::vector<Targets> case_targets(const Npz& inputs) {
  std::vector<Targets> targets;
  for (std::size_t i = 0; inputs.count("gt_boxes" + std::to_string(i)) == 1; ++i) {
    targets.push_back({.boxes = to_tensor(inputs.at("gt_boxes" + std::to_string(i))),
                       .labels = to_tensor(inputs.at("gt_classes" + std::to_string(i)))});
    const auto part = [&](std::size_t object, std::size_t number) {
      return inputs.find(fmt::format("poly{}_{}_{}", i, object, number));
    };
    for (std::size_t k = 0; part(k, 0) != inputs.end(); ++k) {
      Segmentation mask;
      for (std::size_t j = 0; part(k, j) != inputs.end(); ++j) {
        mask.polygons.push_back(part(k, j)->second.to_double());
      }
      targets.back().masks.push_back(std::move(mask));
    }
  }
  return targets;
}

std::map<std::string, Tensor> state_of(const torch::nn::Module& model) {
  std::map<std::string, Tensor> state;
  for (const auto& item : model.named_parameters()) {
    state.emplace(item.key(), item.value());
  }
  for (const auto& item : model.named_buffers()) {
    state.emplace(item.key(), item.value());
  }
  return state;
}

Tensor formula_values(
    const std::string& name, std::uint64_t seed, double low, double high, at::IntArrayRef shape) {
  Tensor values = torch::empty(shape, torch::kFloat);
  float* out = values.data_ptr<float>();
  const std::uint64_t start = fnv1a64(name) + seed * 0x632BE59BD9B4E019ULL;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::uint64_t z =
        mix(start + (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15ULL);
    out[i] = static_cast<float>(low + (high - low) * (static_cast<double>(z >> 40) / 16777216.0));
  }
  return values;
}

}  // namespace detforge::test
