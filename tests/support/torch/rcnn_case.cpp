#include "support/torch/rcnn_case.h"

#include <functional>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/torch/tensors.h"

namespace detforge::test {
namespace {

using Json = nlohmann::json;
using Setter = std::function<void(FasterRcnnOptions&, const Json&)>;

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table{
      {"MODEL.RESNETS.DEPTH", [](auto& o, const Json& v) { o.resnet.depth = v; }},
      {"MODEL.RESNETS.STEM_OUT_CHANNELS",
       [](auto& o, const Json& v) { o.resnet.stem_out_channels = v; }},
      {"MODEL.RESNETS.WIDTH_PER_GROUP",
       [](auto& o, const Json& v) { o.resnet.width_per_group = v; }},
      {"MODEL.RESNETS.RES2_OUT_CHANNELS",
       [](auto& o, const Json& v) { o.resnet.res2_out_channels = v; }},
      {"MODEL.BACKBONE.FREEZE_AT", [](auto& o, const Json& v) { o.resnet.freeze_at = v; }},
      {"MODEL.FPN.OUT_CHANNELS", [](auto& o, const Json& v) { o.fpn.out_channels = v; }},
      {"MODEL.ROI_BOX_HEAD.FC_DIM",
       [](auto& o, const Json& v) { o.roi_heads.box_head.fc_dim = v; }},
      {"MODEL.ROI_HEADS.NUM_CLASSES",
       [](auto& o, const Json& v) { o.roi_heads.output.num_classes = v; }},
      {"MODEL.ROI_MASK_HEAD.CONV_DIM",
       [](auto& o, const Json& v) { o.roi_heads.mask_head.value().conv_dim = v; }},
      {"MODEL.RPN.BATCH_SIZE_PER_IMAGE",
       [](auto& o, const Json& v) { o.rpn.sampling.batch_size = v; }},
      {"MODEL.ROI_HEADS.BATCH_SIZE_PER_IMAGE",
       [](auto& o, const Json& v) { o.roi_heads.batch_size_per_image = v; }},
      {"MODEL.RPN.PRE_NMS_TOPK_TRAIN",
       [](auto& o, const Json& v) { o.rpn.train.pre_nms_top_k = v; }},
      {"MODEL.RPN.POST_NMS_TOPK_TRAIN",
       [](auto& o, const Json& v) { o.rpn.train.post_nms_top_k = v; }},
      {"MODEL.RPN.PRE_NMS_TOPK_TEST", [](auto& o, const Json& v) { o.rpn.test.pre_nms_top_k = v; }},
      {"MODEL.RPN.POST_NMS_TOPK_TEST",
       [](auto& o, const Json& v) { o.rpn.test.post_nms_top_k = v; }},
      {"MODEL.DEVICE", [](auto&, const Json&) {}},
      {"MODEL.WEIGHTS", [](auto&, const Json&) {}},
  };
  return table;
}

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

void load_npz(const std::filesystem::path& path, FasterRcnn& model) {
  const Npz weights = read_npz(path);
  const auto state = state_of(model);
  for (const auto& [name, tensor] : state) {
    DETFORGE_CHECK(weights.count(name) == 1, path.string() + " has no " + name, "");
    tensor.copy_(to_tensor(weights.at(name)));
  }
  DETFORGE_CHECK(weights.size() == state.size(),
                 path.string() + " has entries that the model lacks", "");
}

void load_formula(const Json& description, FasterRcnn& model) {
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

bool is_rcnn_case(const Json& description) {
  const std::string base = description.value("base_config", "");
  return base.find("faster_rcnn") != std::string::npos ||
         base.find("mask_rcnn") != std::string::npos;
}

bool has_masks(const Json& description) {
  return description.value("base_config", "").find("mask_rcnn") != std::string::npos;
}

FasterRcnnOptions rcnn_case_options(const Json& description) {
  FasterRcnnOptions options;
  if (description.at("base_config").get<std::string>().find("R_101") != std::string::npos) {
    options.resnet.depth = 101;
  }
  if (has_masks(description)) {
    options.roi_heads.mask_head.emplace();
  }
  for (const auto& [key, value] : description.at("config_overrides").items()) {
    const auto setter = setters().find(key);
    DETFORGE_CHECK(setter != setters().end(),
                   "override " + key + " of a parity case is not handled",
                   "extend tests/support/torch/rcnn_case.cpp");
    setter->second(options, value);
  }
  return options;
}

std::unique_ptr<FasterRcnn> rcnn_case_model(const ParityCase& parity_case) {
  const torch::NoGradGuard no_grad;
  auto model = std::make_unique<FasterRcnn>(rcnn_case_options(parity_case.description), /*seed=*/1);
  const auto weights = parity_case.folder / "weights.npz";
  if (std::filesystem::exists(weights)) {
    load_npz(weights, *model);
  } else {
    load_formula(parity_case.description, *model);
  }
  return model;
}

ImageBatch rcnn_case_images(const Npz& inputs) {
  ImageBatch batch;
  std::vector<Tensor> images;
  const Tensor mean = torch::tensor({103.53F, 116.28F, 123.675F}).view({3, 1, 1});
  std::int64_t height = 0;
  std::int64_t width = 0;
  for (std::size_t i = 0; inputs.count("image" + std::to_string(i)) == 1; ++i) {
    images.push_back(to_tensor(inputs.at("image" + std::to_string(i))).to(torch::kFloat) - mean);
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

std::vector<Targets> rcnn_case_targets(const Npz& inputs) {
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
