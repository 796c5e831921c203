#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// The command line as plain structs, one per subcommand. Torch-free: the front program `detforge`
/// and the engine parse with the same code, so help and usage errors never wait for LibTorch.
/// `overrides` are in the form that load_config takes: KEY VALUE pairs and KEY=VALUE words; what
/// was given by --cfg-options comes last. Empty strings mean "not given".
namespace detforge {

struct HeightWidth {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// What --allocator chooses: the heap of core/caching_allocator.h, or malloc.
enum class Allocator { kCaching, kSystem };

/// The processes of a run. Without --nproc it is the environment that says what there is.
struct RankArguments {
  std::int64_t nproc = 0;  ///< ranks on this machine; 0 = not given
  std::int64_t nnodes = 1, node_rank = 0;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;     ///< 0 = a free one
  std::string local_addr;  ///< or the name of an interface; empty = by the route to the master
  bool bind_cores = false;
  std::int64_t max_restarts = 0;
};

struct TrainArguments {
  std::string config;  ///< may be empty with `resume`
  std::vector<std::string> overrides;
  std::string resume;  ///< run folder to continue
  std::string init;    ///< weights to start from, instead of MODEL.WEIGHTS
  bool eval_only = false;
  bool fp32 = false, hf32 = false;  ///< of the Ascend scripts; already in `overrides`
  std::string output;               ///< instead of OUTPUT_DIR
  std::string data;                 ///< see resolve_datasets
  int threads = 0;                  ///< 0 = all usable cores
  Allocator allocator = Allocator::kCaching;
  RankArguments ranks;
};

struct EvalArguments {
  std::string config;  ///< recipe or run folder
  std::vector<std::string> overrides;
  std::string weights;  ///< empty: the run folder's best, or MODEL.WEIGHTS
  std::string output;
  std::string data;
  int threads = 0;
  bool pycocotools_compat = false;
  std::int64_t pictures = 8;
  Allocator allocator = Allocator::kCaching;
  RankArguments ranks;
};

struct PredictArguments {
  std::string weights;  ///< weights or run folder
  std::string config;   ///< empty: as stored with the weights
  std::vector<std::string> overrides;
  std::vector<std::string> inputs;  ///< images and folders
  std::string output = "predictions";
  std::string json;  ///< file for the detections; empty = none
  double score_threshold = 0.5;
  std::int64_t limit = 0;  ///< most images; 0 = all
  int threads = 0;
  Allocator allocator = Allocator::kCaching;
};

struct ConfigArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool describe = false;
};

struct MakeShapesArguments {
  std::string output = "data/shapes";
  std::int64_t train_images = 1200;
  std::int64_t val_images = 100;
  HeightWidth size = {160, 240};
  std::uint64_t seed = 1;
  bool rle = false;
};

struct ConvertDatasetArguments {
  std::string from, to;  ///< coco, yolo or voc
  std::string source;    ///< as load_coco(), load_yolo() and load_voc() take it
  std::string output;
  std::string images;                ///< folder of the source's images; empty: as the source says
  std::vector<std::string> classes;  ///< names, or one file of names
  std::string split;                 ///< name of the image set that is written; empty: the source's
  bool copy_images = false, link_images = false;
  bool masks = false;
  bool integer_boxes = false;
  bool zero_based = false;            ///< VOC files to be read count pixels from 0
  bool use_difficult = false;         ///< VOC's difficult objects are ordinary ones
  std::vector<std::string> policies;  ///< PROBLEM=ACTION
  std::string report;                 ///< file for the data checks as JSON; empty = none
  bool strict = false;                ///< problems that were repaired or dropped end it too
  bool force = false;
};

struct ConvertWeightsArguments {
  std::string input, output;
  std::string cfg;  ///< Darknet's description of the network of a .weights input; empty: YOLOv3's
  bool force = false;
};

struct InspectArguments {
  std::string config;
  std::vector<std::string> overrides;
  HeightWidth size = {800, 1344};
  std::int64_t batch = 1;
  std::int64_t objects = 8;  ///< per made-up image
  Allocator allocator = Allocator::kCaching;
  bool memory = false;     ///< predict the peak of each of `modes` instead
  bool precision = false;  ///< tell in what each layer computes instead
  std::vector<std::string> modes = {"fp32", "o1", "o2", "o2-checkpoint"};
};

struct BenchArguments {
  std::string task;    ///< train, eval, data, ops or comm
  std::string config;  ///< ops: also a folder of recipes; may be empty for ops
  std::vector<std::string> overrides;
  HeightWidth size = {0, 0};  ///< 0: usual_image_size() of the recipe
  std::int64_t batch =
      0;  ///< 0: 1; ops: IMS_PER_BATCH of the recipe, or what fills 800x1344 pixels
  std::int64_t objects = 8;  ///< per made-up image
  std::int64_t iters = 10;
  int threads = 0;
  Allocator allocator = Allocator::kCaching;
  std::string data;
  std::string json;      ///< file for the figures; empty = none
  bool quick = false;    ///< ops: one timed run of each pass, no errors
  bool explain = false;  ///< ops: how each pass is computed and why, instead of how fast
  std::vector<std::string> modes = {};  ///< train: precisions side by side; empty: the recipe's
  RankArguments ranks = {};             ///< comm
};

struct DoctorArguments {
  std::string run;           ///< run folder to examine; empty: this machine
  RankArguments ranks = {};  ///< with --nnodes or --master-port: the way to other machines
};

struct ReplayArguments {
  std::string bundle;                  ///< nonfinite_iter_N.pth
  std::vector<std::string> overrides;  ///< to try the step in another precision
  int threads = 0;
};

using Command = std::variant<TrainArguments,
                             EvalArguments,
                             PredictArguments,
                             ConfigArguments,
                             MakeShapesArguments,
                             ConvertDatasetArguments,
                             ConvertWeightsArguments,
                             InspectArguments,
                             BenchArguments,
                             ReplayArguments,
                             DoctorArguments>;

/// The overrides that make everything f32, with products of FLOAT32_PRECISION `products`.
std::vector<std::string> f32_overrides(const std::string& products);

/// What to run, or, when there is nothing more to do (--help, --version), nothing.
/// Prints help to stdout. Throws Error (usage) for everything that does not parse.
std::optional<Command> parse_command_line(int argc, const char* const* argv);

}  // namespace detforge
