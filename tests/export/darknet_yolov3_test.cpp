// The same .weights file in both of our forms of YOLOv3: the model with mmdetection's names, and
// the network of Darknet's yolov3.cfg. They agree only if names, order and channels are right.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/export/darknet_weights.h"
#include "detforge/export/load_weights.h"
#include "detforge/models/darknet/darknet_detector.h"
#include "detforge/models/yolo/yolov3.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

constexpr int kNarrower = 16;  // than the real networks
constexpr int kClasses = 3;

std::string convolution(int filters, int size, int stride = 1) {
  return fmt::format(
      "[convolutional]\nbatch_normalize=1\nfilters={}\nsize={}\nstride={}\npad=1\n"
      "activation=leaky\n",
      filters / kNarrower, size, stride);
}

/// One branch of yolov3.cfg: five convolutions, the head's two, [yolo].
std::string branch(int filters, const char* mask) {
  std::string text;
  for (const bool is_wide : {false, true, false, true, false, true}) {
    text += convolution(is_wide ? 2 * filters : filters, is_wide ? 3 : 1);
  }
  text +=
      fmt::format("[convolutional]\nsize=1\nfilters={}\nactivation=linear\n", 3 * (5 + kClasses));
  return text + fmt::format(
                    "[yolo]\nmask={}\nanchors=10,13, 16,30, 33,23, 30,61, 62,45, 59,119, 116,90, "
                    "156,198, 373,326\nclasses={}\nnum=9\n",
                    mask, kClasses);
}

/// From a coarser branch to the layer `lateral` of the backbone.
std::string way_up(int filters, int lateral) {
  return "[route]\nlayers=-4\n" + convolution(filters, 1) + "[upsample]\nstride=2\n" +
         fmt::format("[route]\nlayers=-1,{}\n", lateral);
}

/// Darknet's yolov3.cfg, but for the widths, classes and input.
std::string yolov3_cfg() {
  std::string text = "[net]\nwidth=96\nheight=64\n" + convolution(32, 3);
  int filters = 64;
  for (const int blocks : {1, 2, 8, 8, 4}) {
    text += convolution(filters, 3, 2);
    for (int i = 0; i < blocks; ++i) {
      text += convolution(filters / 2, 1) + convolution(filters, 3) +
              "[shortcut]\nfrom=-3\nactivation=linear\n";
    }
    filters *= 2;
  }
  return text + branch(512, "6,7,8") + way_up(256, 61) + branch(256, "3,4,5") + way_up(128, 36) +
         branch(128, "0,1,2");
}

/// With weights and statistics that are not those of the beginning.
YoloV3 make_yolov3() {
  YoloV3Options options;
  options.darknet.stem_channels = 32 / kNarrower;
  options.neck.widths = {512 / kNarrower, 256 / kNarrower, 128 / kNarrower};
  options.head.widths = {1024 / kNarrower, 512 / kNarrower, 256 / kNarrower};
  options.layout.num_classes = kClasses;
  options.output = {.selection = YoloSelection::kProduct, .score_threshold = 0.005};
  YoloV3 model(options, 5);
  torch::manual_seed(4);
  const torch::NoGradGuard no_grad;
  for (const auto& buffer : model.named_buffers()) {
    buffer.value().uniform_(0.5, 1.5);
  }
  for (const auto& parameter : model.named_parameters()) {
    parameter.value().add_(torch::randn_like(parameter.value()) * 0.1);
  }
  model.eval();
  return model;
}

TEST(DarknetYoloV3, CfgNetworkAndModelAreTheSameFunction) {
  const test::TemporaryFolder folder;
  YoloV3 model = make_yolov3();
  save_darknet_weights(folder / "yolov3.weights", model);
  DarknetDetector network({.cfg = parse_darknet_cfg(yolov3_cfg())}, 0);
  EXPECT_EQ(network.cfg().layers.size(), 107U);  // as Darknet counts yolov3.cfg
  const LoadReport report = load_weights(network, folder / "yolov3.weights");
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty()) << report.table();
  network.eval();

  const torch::NoGradGuard no_grad;
  ImageBatch images;
  images.images = torch::rand({2, 3, 64, 96});
  images.sizes = {{64, 96}, {64, 96}};
  const std::vector<Tensor> maps = network.maps(images), expected = model.forward(images.images);
  ASSERT_EQ(maps.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {  // eps is 1e-6 and 1e-5: relative 1e-5 in each layer
    EXPECT_GT(expected[i].abs().max().item<double>(), 0.1);
    EXPECT_TRUE(test::expect_close_l2(maps[i], expected[i], 1e-3)) << i;
  }
  const Detections found = network.predict(images)[0], wanted = model.predict(images)[0];
  ASSERT_GT(wanted.scores.size(0), 0);
  EXPECT_EQ(found.scores.size(0), wanted.scores.size(0));
  EXPECT_TRUE(test::expect_close(found.scores[0], wanted.scores[0], {.rtol = 1e-3}));
}

}  // namespace
}  // namespace detforge
