#include "detforge/train/epochs.h"

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

TEST(EpochLength, CountsAsMmdetectionDoes) {
  // COCO train2017 without empty images, 8 GPUs of 8: ceil(117266 / 64) = 1833 (64 * 1832 =
  // 117248).
  const EpochLength epoch({.images = 117266, .images_per_step = 64});
  EXPECT_EQ(epoch.iterations(), 1833);
  EXPECT_EQ(epoch.iterations(273), 500409);
  EXPECT_EQ(epoch.iterations(std::vector<double>{218, 246}),
            (std::vector<std::int64_t>{399594, 450918}));
  EXPECT_DOUBLE_EQ(epoch.epochs(1833 * 7), 7);
}

TEST(EpochLength, FullStepsNeedNoRounding) {
  EXPECT_EQ(EpochLength({.images = 128, .images_per_step = 64}).iterations(), 2);
  EXPECT_EQ(EpochLength({.images = 129, .images_per_step = 64}).iterations(), 3);
  EXPECT_EQ(EpochLength({.images = 1, .images_per_step = 64}).iterations(), 1);
  EXPECT_EQ(EpochLength({.images = 128.5, .images_per_step = 64}).iterations(), 3);  // repeats
}

TEST(EpochLength, BrokenEpochsGoToTheNearestIterationAndZeroStaysOff) {
  const EpochLength epoch({.images = 100, .images_per_step = 10});
  EXPECT_EQ(epoch.iterations(0.5), 5);
  EXPECT_EQ(epoch.iterations(1.26), 13);
  EXPECT_EQ(epoch.iterations(0.001), 1);
  EXPECT_EQ(epoch.iterations(0), 0);
}

TEST(EpochLengthProperty, EpochsOfIterationsOfEpochsAreTheEpochs) {
  for (const double images : {1.0, 7.0, 999.0, 117266.0}) {
    for (const std::int64_t per_step : {1, 3, 64}) {
      const EpochLength epoch({.images = images, .images_per_step = per_step});
      for (const double epochs : {1.0, 2.0, 273.0}) {
        EXPECT_DOUBLE_EQ(epoch.epochs(epoch.iterations(epochs)), epochs);
      }
    }
  }
}

TEST(EpochLength, NothingToTrainOnIsAnError) {
  EXPECT_THROW(EpochLength({.images = 0, .images_per_step = 8}), Error);
  EXPECT_THROW(EpochLength({.images = 8, .images_per_step = 0}), Error);
}

}  // namespace
}  // namespace detforge
