#include "detforge/cli/recipe_layers.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "detforge/cli/build.h"
#include "detforge/cli/made_up_batch.h"
#include "detforge/cli/recipe.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/data/collate.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

/// What one CPU process works on at a time in the recipes for COCO.
constexpr std::int64_t kUsualPixels = 800 * 1344;

struct NamedConfig {
  std::string name;
  Config config;
};

bool is_recipe(const fs::path& file) {
  return file.extension() == ".yaml" && !file.filename().string().starts_with("Base-");
}

std::vector<fs::path> recipes_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_recipe(entry.path())) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<NamedConfig> load_recipes(const BenchArguments& arguments) {
  const fs::path place = arguments.config.empty() ? "configs" : arguments.config;
  const bool folder = fs::is_directory(place) && !fs::exists(place / "config.yaml");
  const std::vector<fs::path> files = folder ? recipes_below(place) : std::vector{place};
  if (files.empty() || !fs::exists(files.front())) {
    throw Error("no recipe in " + place.string(),
                "give a recipe or a folder of recipes, or run this where configs/ lies",
                Error::Kind::kUsage);
  }
  std::vector<NamedConfig> recipes;
  for (const fs::path& file : files) {
    const fs::path shown = folder ? fs::relative(file, place) : file;
    recipes.push_back(
        {fs::path(shown).replace_extension().string(),
         load_recipe(
             {.file = file.string(), .overrides = arguments.overrides, .needs_data = false})});
  }
  return recipes;
}

HeightWidth size_for(const Config& config, const BenchArguments& arguments) {
  if (arguments.size.height > 0) {
    return arguments.size;
  }
  const ImageSize usual = usual_image_size(config);
  return {usual.height, usual.width};
}

std::int64_t batch_for(const Config& config, const HeightWidth& size, std::int64_t requested) {
  if (requested > 0) {
    return requested;
  }
  const std::int64_t fitting = std::max<std::int64_t>(1, kUsualPixels / (size.height * size.width));
  return std::min(config.solver.ims_per_batch, fitting);
}

std::int64_t objects_for(const Config& config, std::int64_t requested) {
  const RoiHeadsConfig& heads = config.model.roi_heads;
  const auto trained_masks = static_cast<std::int64_t>(
      static_cast<double>(heads.batch_size_per_image) * heads.positive_fraction);
  return config.model.mask_on ? std::max(requested, trained_masks) : requested;
}

std::vector<LayerCount> run_once(const Config& config,
                                 const RecipeLayers& recipe,
                                 std::int64_t objects) {
  const auto detector = build_detector(config);
  detector->train();
  const Batch batch =
      collate(made_up_samples(recipe.size, recipe.batch, objects, class_count(config)),
              made_up_collate_options(collate_options(config)));
  const WorkMeter meter;
  detector->losses(batch.images, batch.targets);
  std::vector<LayerCount> layers = meter.layers();
  std::erase_if(layers, [](const LayerCount& layer) { return layer.macs == 0; });
  return layers;
}

/// True if both have the same layers: weights that a run starts from do not change them.
bool same_network(ModelConfig a, ModelConfig b) {
  a.weights = b.weights = "";
  return a == b;
}

}  // namespace

std::vector<RecipeLayers> collect_layers(const BenchArguments& arguments) {
  std::vector<RecipeLayers> all;
  std::vector<ModelConfig> models;
  for (const auto& [name, config] : load_recipes(arguments)) {
    const HeightWidth size = size_for(config, arguments);
    RecipeLayers recipe{.name = name,
                        .size = size,
                        .batch = batch_for(config, size, arguments.batch),
                        .layers = {}};
    const auto twin = std::find_if(all.begin(), all.end(), [&](const RecipeLayers& other) {
      const ModelConfig& model = models[static_cast<std::size_t>(&other - all.data())];
      return other.size.height == size.height && other.size.width == size.width &&
             other.batch == recipe.batch && same_network(model, config.model);
    });
    if (twin != all.end()) {
      twin->same.push_back(name);
      continue;
    }
    log::info("{}: one step of {} image(s) of {}x{}", name, recipe.batch, size.height, size.width);
    recipe.layers = run_once(config, recipe, objects_for(config, arguments.objects));
    all.push_back(std::move(recipe));
    models.push_back(config.model);
  }
  return all;
}

}  // namespace detforge
