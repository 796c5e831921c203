// The subcommands below convert.

#include "detforge/cli/declare.h"
#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr const char* kDataset = "convert dataset";
constexpr const char* kWeights = "convert weights";

void check(const ConvertDatasetArguments& arguments, const std::vector<std::string>& words) {
  refuse_words(words, kDataset);
  require_given(arguments.from, "--from", kDataset);
  require_given(arguments.to, "--to", kDataset);
  require_given(arguments.source, "SOURCE", kDataset);
  require_given(arguments.output, "OUT", kDataset);
  if (arguments.copy_images && arguments.link_images) {
    throw Error("--copy-images and --link-images do not go together",
                "see `detforge convert dataset --help`", Error::Kind::kUsage);
  }
}

void add_format(CLI::App& app,
                const std::string& name,
                std::string& out,
                const std::string& description) {
  app.add_option(name, out, description)
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"coco", "yolo", "voc"}).description(""));
}

void add_reading_options(CLI::App& app, ConvertDatasetArguments& out) {
  add_format(app, "--from", out.from, "Format of SOURCE: coco, yolo or voc");
  app.add_option("--images", out.images, "Folder of the images, if SOURCE does not say it")
      ->type_name("DIR");
  app.add_option("--classes", out.classes,
                 "Classes to keep, in this order, or a file of names; for YOLO sources without "
                 "names: the names")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--zero-based", out.zero_based, "VOC files count pixels from 0, as many tools do");
  app.add_flag("--use-difficult", out.use_difficult,
               "VOC's difficult objects are ordinary objects, not crowds");
  app.add_option("--policy", out.policies,
                 "What is done about a problem: fix, drop or error; may be repeated")
      ->type_name("PROBLEM=ACTION")
      ->allow_extra_args(false)
      ->take_all();
  app.add_flag("--strict", out.strict, "Write nothing if the checks find any problem");
}

void add_writing_options(CLI::App& app, ConvertDatasetArguments& out) {
  add_format(app, "--to", out.to, "Format of OUT: coco, yolo or voc");
  app.add_option("--split", out.split, "Name of the image set in OUT; default: as in SOURCE")
      ->type_name("NAME");
  app.add_flag("--copy-images", out.copy_images, "Copy the images into OUT");
  app.add_flag("--link-images", out.link_images, "Link the images into OUT");
  app.add_flag("--masks", out.masks, "YOLO: polygons instead of boxes, where there are any");
  app.add_flag("--integer-boxes", out.integer_boxes,
               "VOC: round boxes to whole pixels, for tools that read no decimals");
  app.add_option("--report", out.report, "File for the data checks as JSON")->type_name("FILE");
  app.add_flag("--force", out.force, "Replace files that are there already");
}

void check(const ConvertWeightsArguments& arguments, const std::vector<std::string>& words) {
  refuse_words(words, kWeights);
  require_given(arguments.input, "IN", kWeights);
  require_given(arguments.output, "OUT", kWeights);
}

}  // namespace

Declaration declare_convert_weights(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "weights",
      {.usage = "IN OUT [OPTIONS]",
       .description =
           "Convert weights from Darknet's .weights to .pth, or back if OUT ends in .weights",
       .examples = "  detforge convert weights darknet53.conv.74 darknet53.pth\n"
                   "  detforge convert weights yolov3.weights yolov3.pth\n"
                   "  detforge convert weights yolov4.weights yolov4.pth --cfg yolov4.cfg\n"
                   "  detforge convert weights runs/my/checkpoints/best.pth my.weights"});
  auto arguments = std::make_shared<ConvertWeightsArguments>();
  app->add_option("input", arguments->input, "Weights file")->type_name("IN");
  app->add_option("output", arguments->output, "File to write")->type_name("OUT");
  app->add_option("--cfg", arguments->cfg,
                  "Darknet's .cfg file of a .weights input; without it the input is Darknet-53 or "
                  "YOLOv3")
      ->type_name("FILE");
  app->add_flag("--force", arguments->force, "Replace OUT if it is there already");
  return {app, [=](const std::vector<std::string>& words) -> Command {
            check(*arguments, words);
            return *arguments;
          }};
}

Declaration declare_convert_dataset(CLI::App& parent) {
  CLI::App* app = add_command(
      parent, "dataset",
      {.usage = "--from FORMAT SOURCE --to FORMAT OUT [OPTIONS]",
       .description = "Convert a dataset between COCO, YOLO and Pascal VOC, with all checks",
       .examples = "  detforge convert dataset --from yolo data.yaml:val --to coco data/mine\n"
                   "  detforge convert dataset --from voc VOC2007:trainval --to coco "
                   "annotations/voc.json\n"
                   "  detforge convert dataset --from coco instances_val2017.json --images val2017 "
                   "--to yolo\n"
                   "    data/coco_yolo --split val --link-images"});
  auto arguments = std::make_shared<ConvertDatasetArguments>();
  app->add_option("source", arguments->source,
                  "coco: the JSON file; yolo: data.yaml[:SPLIT], obj.data[:SPLIT], a list of "
                  "images or a folder of them; voc: the root folder[:SPLIT], a list in "
                  "ImageSets/Main or a folder of XML files")
      ->type_name("SOURCE");
  app->add_option("output", arguments->output,
                  "Folder, to which more image sets can be added; coco: also FILE.json")
      ->type_name("OUT");
  add_reading_options(*app, *arguments);
  add_writing_options(*app, *arguments);
  return {app, [=](const std::vector<std::string>& words) -> Command {
            check(*arguments, words);
            return *arguments;
          }};
}

}  // namespace detforge
