// The subcommands that run a detector: train, eval, predict.

#include <fmt/format.h>

#include "detforge/cli/declare.h"
#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr const char* kDataHelp =
    "Folder that dataset names (coco_2017_train) and relative DATASETS paths are below";

bool is_recipe_name(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

/// --fp32 and --hf32 as overrides.
void append_precision(TrainArguments& arguments) {
  if (arguments.fp32 && arguments.hf32) {
    throw Error("--fp32 and --hf32 do not go together",
                "--hf32 lets products of f32 be rounded, --fp32 does not", Error::Kind::kUsage);
  }
  if (arguments.fp32 || arguments.hf32) {
    for (const std::string& word : f32_overrides(arguments.fp32 ? "highest" : "high")) {
      arguments.overrides.push_back(word);
    }
  }
}

}  // namespace

std::vector<std::string> f32_overrides(const std::string& products) {
  return {"AMP", "0", "SOLVER.AMP.ENABLED", "False", "FLOAT32_PRECISION", products};
}

Declaration declare_train(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "train",
      {.usage = "CONFIG [OPTIONS] [KEY VALUE ...]",
       .description = "Train a detector; evaluates it as TEST.EVAL_PERIOD says and at the end",
       .examples = "  detforge train configs/shapes.yaml\n"
                   "  detforge train configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml --data "
                   "/data/coco \\\n"
                   "      --output runs/r50 SOLVER.IMS_PER_BATCH 4 SOLVER.BASE_LR 0.005\n"
                   "  detforge train --resume runs/r50\n"
                   "  detforge train configs/shapes.yaml --nproc 2\n"
                   "  detforge train configs/shapes.yaml --nproc 8 --nnodes 2 --node-rank 0 \\\n"
                   "      --master-addr 10.0.0.1 --master-port 23333\n"
                   "  detforge train configs/shapes.yaml --init runs/shapes/checkpoints/best.pth "
                   "--eval-only"});
  auto arguments = std::make_shared<TrainArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("config,--config-file", arguments->config, "Recipe; not needed with --resume")
      ->type_name("FILE");
  app->add_option("--resume", arguments->resume, "Continue this run exactly")->type_name("RUN");
  app->add_option("--init", arguments->init, "Start a new run from these weights (MODEL.WEIGHTS)")
      ->type_name("FILE");
  app->add_flag("--fp32", arguments->fp32,
                "Everything in f32: AMP 0, FLOAT32_PRECISION highest (flag of the Ascend scripts)");
  app->add_flag("--hf32", arguments->hf32,
                "f32 with faster products where the device has them (TF32, HF32): AMP 0, "
                "FLOAT32_PRECISION high");
  app->add_flag("--eval-only", arguments->eval_only, "Evaluate the starting weights and stop");
  app->add_option("--output", arguments->output, "Run folder (OUTPUT_DIR)")->type_name("DIR");
  app->add_option("--data", arguments->data, kDataHelp)->type_name("DIR");
  add_threads(*app, arguments->threads);
  add_allocator(*app, arguments->allocator);
  add_ranks(*app, arguments->ranks);
  app->add_option("--max-restarts", arguments->ranks.max_restarts,
                  "Times to go on from the last checkpoint after a rank was lost")
      ->type_name("N")
      ->capture_default_str();
  add_cfg_options(*app, *cfg_options);
  return {
      app, [=](std::vector<std::string> words) -> Command {
        TrainArguments result = *arguments;
        // With --resume the first word may already be a key.
        if (!result.resume.empty() && !result.config.empty() && !is_recipe_name(result.config)) {
          words.insert(words.begin(), result.config);
          result.config.clear();
        }
        if (result.resume.empty()) {
          require_given(result.config, "CONFIG", "train");
        } else if (!result.init.empty()) {
          throw Error("--resume and --init do not go together",
                      "--resume continues a run exactly; --init starts a new one",
                      Error::Kind::kUsage);
        }
        result.overrides = joined(words, *cfg_options);
        append_precision(result);
        return result;
      }};
}

Declaration declare_eval(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "eval",
      {.usage = "CONFIG|RUN [OPTIONS] [KEY VALUE ...]",
       .description = "Evaluate weights on DATASETS.TEST with the COCO metrics",
       .examples = "  detforge eval runs/shapes\n"
                   "  detforge eval configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml --data "
                   "/data/coco \\\n"
                   "      --weights model_final_b275ba.pkl --output runs/zoo"});
  auto arguments = std::make_shared<EvalArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("config,--config-file", arguments->config, "Recipe or run folder")
      ->type_name("PATH");
  app->add_option("--weights", arguments->weights, "Weights; else the run's best, or MODEL.WEIGHTS")
      ->type_name("FILE");
  app->add_option("--output", arguments->output, "Folder for results (OUTPUT_DIR)")
      ->type_name("DIR");
  app->add_option("--data", arguments->data, kDataHelp)->type_name("DIR");
  app->add_flag("--pycocotools-compat", arguments->pycocotools_compat,
                "Repeat pycocotools' known errors (a target with id 0 never matches)");
  app->add_option("--pictures", arguments->pictures,
                  "Images to draw, detections beside ground truth; 0 = none")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  add_threads(*app, arguments->threads);
  add_allocator(*app, arguments->allocator);
  add_ranks(*app, arguments->ranks);
  add_cfg_options(*app, *cfg_options);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            EvalArguments result = *arguments;
            require_given(result.config, "CONFIG or RUN", "eval");
            result.overrides = joined(words, *cfg_options);
            return result;
          }};
}

Declaration declare_predict(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "predict",
      {.usage = "RUN|WEIGHTS INPUT ... [OPTIONS]",
       .description = "Detect objects in images and folders of images",
       .examples = "  detforge predict runs/shapes data/shapes/val --output pictures\n"
                   "  detforge predict model_final.pkl a.jpg b.png --json found.json \\\n"
                   "      --config configs/COCO-Detection/faster_rcnn_R_50_FPN_3x.yaml"});
  auto arguments = std::make_shared<PredictArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("weights", arguments->weights, "Run folder or weights")->type_name("PATH");
  app->add_option("--config", arguments->config, "Recipe; else the one stored with the weights")
      ->type_name("FILE");
  app->add_option("--output", arguments->output, "Folder for the annotated pictures")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--json", arguments->json,
                  "File for the detections: image, class name, score, xywh box, mask")
      ->type_name("FILE");
  app->add_option("--score-threshold", arguments->score_threshold,
                  "Least score of a detection that is drawn and written")
      ->type_name("S")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->capture_default_str();
  app->add_option("--limit", arguments->limit, "Most images; 0 = all")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  add_threads(*app, arguments->threads);
  add_allocator(*app, arguments->allocator);
  add_cfg_options(*app, *cfg_options);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            PredictArguments result = *arguments;
            require_given(result.weights, "RUN or WEIGHTS", "predict");
            require_given(words.empty() ? "" : words.front(), "INPUT", "predict");
            result.inputs = words;
            result.overrides = *cfg_options;
            return result;
          }};
}

}  // namespace detforge
