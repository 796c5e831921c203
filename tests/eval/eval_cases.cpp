#include "eval/eval_cases.h"

#include <nlohmann/json.hpp>

#include "detforge/core/files.h"
#include "detforge/core/rng.h"

namespace detforge::test {

EvalInputs load_inputs(const std::filesystem::path& path) {
  const auto json = nlohmann::json::parse(files::read(path));
  EvalInputs inputs;
  for (const auto& image : json.at("images")) {
    inputs.image_ids.push_back(image.at("id").get<std::int64_t>());
  }
  for (const auto& category : json.at("categories")) {
    inputs.categories.push_back(
        {category.at("id").get<std::int64_t>(), category.value("name", "")});
  }
  for (const auto& annotation : json.at("annotations")) {
    const auto& box = annotation.at("bbox");
    inputs.ground_truth.push_back({.image_id = annotation.at("image_id").get<std::int64_t>(),
                                   .category_id = annotation.at("category_id").get<std::int64_t>(),
                                   .id = annotation.at("id").get<std::int64_t>(),
                                   .x = box.at(0).get<double>(),
                                   .y = box.at(1).get<double>(),
                                   .width = box.at(2).get<double>(),
                                   .height = box.at(3).get<double>(),
                                   .area = annotation.at("area").get<double>(),
                                   .is_crowd = annotation.value("iscrowd", 0) != 0});
  }
  return inputs;
}

RandomCase random_case(std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest);
  RandomCase made;
  for (std::int64_t image = 0; image < 6; ++image) {
    made.inputs.image_ids.push_back(900 - 7 * image);
  }
  made.inputs.categories = {{9, "nine"}, {3, "three"}, {60, "sixty"}};
  const auto pick = [&](const auto& items) { return items[rng.below(items.size())]; };
  const auto length = [&] {
    return 4.0 * static_cast<double>(1 + rng.below(rng.below(2) == 0 ? 8 : 30));
  };
  const std::uint64_t objects = rng.below(40);
  for (std::uint64_t i = 0; i < objects; ++i) {
    EvalGroundTruth g{.image_id = pick(made.inputs.image_ids),
                      .category_id = rng.below(4) == 0 ? 3 : 9};
    g.id = static_cast<std::int64_t>(i + 1);
    g.x = 8.0 * static_cast<double>(rng.below(6));
    g.y = 8.0 * static_cast<double>(rng.below(6));
    g.width = length();
    g.height = length();
    g.area = rng.below(3) == 0 ? g.width * g.height * 0.7 : g.width * g.height;
    g.is_crowd = rng.below(6) == 0;
    made.inputs.ground_truth.push_back(g);
  }
  const std::uint64_t detections = rng.below(80);
  for (std::uint64_t i = 0; i < detections; ++i) {
    EvalDetection d{.image_id = pick(made.inputs.image_ids),
                    .category_id = pick(made.inputs.categories).id};
    d.x = 8.0 * static_cast<double>(rng.below(6));
    d.y = 8.0 * static_cast<double>(rng.below(6));
    d.width = length();
    d.height = length();
    if (objects > 0 && rng.below(2) == 0) {  // near an object
      const EvalGroundTruth& g = pick(made.inputs.ground_truth);
      d = {.image_id = g.image_id,
           .category_id = g.category_id,
           .x = g.x,
           .y = g.y,
           .width = g.width,
           .height = g.height};
      d.width += 2.0 * static_cast<double>(rng.below(5));
    }
    d.score = static_cast<double>(rng.below(20)) / 20.0;
    made.detections.push_back(d);
  }
  return made;
}

std::vector<EvalDetection> perfect_detections(const EvalInputs& inputs) {
  std::vector<EvalDetection> detections;
  for (const EvalGroundTruth& g : inputs.ground_truth) {
    if (!g.is_crowd) {
      detections.push_back({.image_id = g.image_id,
                            .category_id = g.category_id,
                            .x = g.x,
                            .y = g.y,
                            .width = g.width,
                            .height = g.height});
      detections.back().score = 1.0 / static_cast<double>(detections.size() + 1);
    }
  }
  return detections;
}

}  // namespace detforge::test
