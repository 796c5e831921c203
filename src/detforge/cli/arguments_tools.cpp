// The subcommands around it: config, make-shapes, inspect, bench, doctor.

#include "detforge/cli/declare.h"
#include "detforge/core/error.h"

namespace detforge {
namespace {

void add_positive(CLI::App& app,
                  const std::string& name,
                  std::int64_t& out,
                  const std::string& description) {
  app.add_option(name, out, description)
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""))
      ->capture_default_str();
}

void check_flags_of_ops(const BenchArguments& arguments) {
  if (arguments.explain && !arguments.json.empty()) {
    throw Error("--explain gives no figures for --json", "leave one of them out",
                Error::Kind::kUsage);
  }
  if (arguments.task != "train" && !arguments.modes.empty()) {
    throw Error("--modes is of the task train, not of " + arguments.task, "leave it out",
                Error::Kind::kUsage);
  }
  if (arguments.task != "ops" && (arguments.quick || arguments.explain)) {
    throw Error("--quick and --explain are of the task ops, not of " + arguments.task,
                "leave them out", Error::Kind::kUsage);
  }
}

}  // namespace

Declaration declare_config(CLI::App& parent) {
  CLI::App* app =
      add_command(parent, "config",
                  {.usage = "CONFIG [KEY VALUE ...] | --describe",
                   .description = "Check a recipe and print the config that it gives",
                   .examples = "  detforge config configs/shapes.yaml SOLVER.MAX_ITER 100\n"
                               "  detforge config --describe | less"});
  auto arguments = std::make_shared<ConfigArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("config,--config-file", arguments->config, "Recipe")->type_name("FILE");
  app->add_flag("--describe", arguments->describe,
                "List all keys: default, allowed values, meaning");
  add_cfg_options(*app, *cfg_options);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            ConfigArguments result = *arguments;
            if (!result.describe) {
              require_given(result.config, "CONFIG", "config");
            }
            result.overrides = joined(words, *cfg_options);
            return result;
          }};
}

Declaration declare_make_shapes(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "make-shapes",
      {.usage = "[DIR] [OPTIONS]",
       .description = "Draw a dataset of shapes in COCO format, the same for the same seed",
       .examples = "  detforge make-shapes data/shapes\n"
                   "  detforge make-shapes /tmp/tiny --train 8 --val 4 --size 96x128"});
  auto arguments = std::make_shared<MakeShapesArguments>();
  app->add_option("output", arguments->output, "Folder to write to")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--train", arguments->train_images, "Training images")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  app->add_option("--val", arguments->val_images, "Held-out images")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  add_size(*app, arguments->size, "Image size");
  app->add_option("--seed", arguments->seed, "Seed of all that is drawn")
      ->type_name("N")
      ->capture_default_str();
  app->add_flag("--rle", arguments->rle,
                "Masks as RLE of what is visible, instead of whole polygons");
  return {app, [=](const std::vector<std::string>& words) -> Command {
            refuse_words(words, "make-shapes");
            return *arguments;
          }};
}

Declaration declare_inspect(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "inspect",
      {.usage = "CONFIG [OPTIONS] [KEY VALUE ...]",
       .description = "Parameters per module, FLOPs of a training step, and its memory: measured "
                      "by two steps on "
                      "made-up images",
       .examples = "  detforge inspect configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml --size "
                   "800x800\n"
                   "  detforge inspect configs/shapes_mask.yaml --size 160x240 --batch 4\n"
                   "  detforge inspect configs/COCO-YOLOv3/yolov3_d53_608_273e.yaml --size 608x608 "
                   "--memory\n"
                   "  detforge inspect configs/shapes.yaml --precision AMP 1 OPT_LEVEL O2"});
  auto arguments = std::make_shared<InspectArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("config,--config-file", arguments->config, "Recipe")->type_name("FILE");
  add_size(*app, arguments->size, "Image size");
  add_positive(*app, "--batch", arguments->batch, "Images per step");
  add_positive(*app, "--objects", arguments->objects, "Objects per made-up image");
  app->add_flag("--memory", arguments->memory,
                "Predict the peak of a training step, by parts and for each of --modes");
  app->add_option("--modes", arguments->modes, "Precisions of --memory, as of bench train")
      ->type_name("A,B,...")
      ->delimiter(',')
      ->default_str("fp32,o1,o2,o2-checkpoint");
  app->add_flag("--precision", arguments->precision,
                "Tell the types of each layer's weight and output, and what is converted");
  add_allocator(*app, arguments->allocator);
  add_cfg_options(*app, *cfg_options);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            InspectArguments result = *arguments;
            require_given(result.config, "CONFIG", "inspect");
            if (result.memory && result.precision) {
              throw Error("--memory and --precision do not go together", "ask for one at a time",
                          Error::Kind::kUsage);
            }
            result.overrides = joined(words, *cfg_options);
            return result;
          }};
}

Declaration declare_bench(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "bench",
      {.usage = "TASK [CONFIG] [OPTIONS] [KEY VALUE ...]",
       .description = "Measure speed: images/s, seconds by phase and op, GFLOP/s, percent of the "
                      "machine's peak",
       .examples = "  detforge bench train configs/COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml "
                   "--size 800x1344\n"
                   "  detforge bench train configs/shapes.yaml --modes fp32,o1,o2\n"
                   "  detforge bench data configs/shapes.yaml --iters 100\n"
                   "  detforge bench comm configs/shapes.yaml --nproc 2\n"
                   "  detforge bench ops\n"
                   "  detforge bench ops configs/shapes.yaml --quick\n"
                   "  detforge bench ops configs/COCO-YOLOv3 --explain"});
  auto arguments = std::make_shared<BenchArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("task", arguments->task,
                  "train, eval, data, comm: sums over ranks, or ops: every layer of the recipes, "
                  "beside LibTorch's")
      ->required()
      ->check(CLI::IsMember({"train", "eval", "data", "ops", "comm"}).description(""));
  app->add_option("config,--config-file", arguments->config,
                  "Recipe; ops: also a folder of recipes, by default configs")
      ->type_name("FILE");
  add_size(*app, arguments->size, "Size of the made-up images");
  app->add_option("--batch", arguments->batch,
                  "Images per step; ops: by default IMS_PER_BATCH, or what fills 800x1344 pixels")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""))
      ->default_str("1");
  add_positive(*app, "--objects", arguments->objects, "Objects per made-up image");
  add_positive(*app, "--iters", arguments->iters, "Steps that are timed");
  app->add_option("--data", arguments->data, "Folder of the dataset (task data)")->type_name("DIR");
  app->add_option("--json", arguments->json, "File for the figures")->type_name("FILE");
  app->add_option("--modes", arguments->modes,
                  "Task train: precisions to measure side by side, each in its own process: fp32, "
                  "hf32, o1, o2, o3, o2-bf16, o2-checkpoint, ...")
      ->type_name("A,B,...")
      ->delimiter(',');
  app->add_flag("--quick", arguments->quick, "Task ops: time each pass once, and no errors");
  app->add_flag("--explain", arguments->explain,
                "Task ops: say how each pass is computed and why, and time nothing");
  add_threads(*app, arguments->threads);
  add_allocator(*app, arguments->allocator);
  add_ranks(*app, arguments->ranks);
  add_cfg_options(*app, *cfg_options);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            BenchArguments result = *arguments;
            if (result.task != "ops" && result.task != "comm") {
              require_given(result.config, "CONFIG", "bench");
            }
            check_flags_of_ops(result);
            result.overrides = joined(words, *cfg_options);
            return result;
          }};
}

Declaration declare_replay(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "replay",
      {.usage = "BUNDLE [OPTIONS] [KEY VALUE ...]",
       .description =
           "Make a training step that was not finite again, and name the first layer that "
           "spoils it",
       .examples = "  detforge replay runs/r50/nonfinite_iter_4711.pth\n"
                   "  detforge replay runs/r50/nonfinite_iter_4711.pth AMP 0"});
  auto arguments = std::make_shared<ReplayArguments>();
  auto cfg_options = std::make_shared<std::vector<std::string>>();
  app->add_option("bundle", arguments->bundle, "What the run wrote: nonfinite_iter_N.pth")
      ->type_name("FILE");
  add_threads(*app, arguments->threads);
  add_cfg_options(*app, *cfg_options);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            ReplayArguments result = *arguments;
            require_given(result.bundle, "BUNDLE", "replay");
            result.overrides = joined(words, *cfg_options);
            return result;
          }};
}

Declaration declare_doctor(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "doctor",
      {.usage = "[RUN]",
       .description =
           "Look for what will hurt. On this machine: versions, BLAS, threads, CPU, "
           "memory, disk. In a run: precision and loss scale, skipped steps, waiting for "
           "data, batch, threads. Between machines, started on all of them with --nnodes: "
           "addresses, ports, versions, clocks",
       .examples = "  detforge doctor\n"
                   "  detforge doctor runs/shapes\n"
                   "  detforge doctor --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 \\\n"
                   "      --master-port 23333"});
  auto arguments = std::make_shared<DoctorArguments>();
  app->add_option("run", arguments->run, "Run folder; without it this machine is examined")
      ->type_name("RUN");
  add_ranks(*app, arguments->ranks);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            refuse_words(words, "doctor");
            return *arguments;
          }};
}

}  // namespace detforge
