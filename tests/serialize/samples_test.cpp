#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/torch_file.h"
#include "support/npz.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

/// Files that Python wrote: ../shared/data/weights/format_samples and the weights of the parity
/// cases.
namespace detforge {
namespace {

std::filesystem::path samples() {
  return test::test_data_dir() / "weights" / "format_samples";
}

nlohmann::json expectations() {
  return nlohmann::json::parse(files::read(samples() / "expected.json"));
}

/// The tensor of this name: at the top, under "model" or "blobs", or inside "model" by a dotted
/// name.
Tensor find_tensor(const Item& file, const std::string& name) {
  if (const auto found = file.find(name)) {
    return found->tensor();
  }
  for (const char* key : {"model", "blobs"}) {
    if (const auto inner = file.find(key)) {
      const std::string prefix = std::string(key) + ".";
      const bool dotted = name.rfind(prefix, 0) == 0 && !inner->find(name);
      return (*inner)[dotted ? name.substr(prefix.size()) : name].tensor();
    }
  }
  throw Error("no tensor " + name, "");
}

void expect_tensor(const Tensor& tensor, const nlohmann::json& expected) {
  EXPECT_EQ(tensor.sizes().vec(), expected["shape"].get<std::vector<std::int64_t>>());
  static const std::map<at::ScalarType, std::string> kNames = {
      {at::kFloat, "float32"},     {at::kDouble, "float64"}, {at::kHalf, "float16"},
      {at::kBFloat16, "bfloat16"}, {at::kLong, "int64"},     {at::kByte, "uint8"},
      {at::kBool, "bool"}};
  EXPECT_EQ(kNames.at(tensor.scalar_type()), expected["dtype"].get<std::string>());
  const Tensor flat = tensor.to(at::kDouble).contiguous().view(-1);
  const double sum = expected["sum"].get<double>();
  EXPECT_NEAR(flat.sum().item<double>(), sum,
              1e-9 * (1 + std::abs(sum)) * static_cast<double>(1 + flat.numel()));
  const auto first = expected["first"].get<std::vector<double>>();
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(flat[static_cast<std::int64_t>(i)].item<double>(), first[i]);
  }
}

TEST(FormatSamples, TensorsAreAsPythonSavedThem) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  int files = 0;
  const nlohmann::json all = expectations();
  for (const auto& [name, expected] : all.items()) {
    if (!expected.contains("tensors")) {
      continue;
    }
    SCOPED_TRACE(name);
    const Value value = read_torch_file(samples() / name);
    for (const auto& [tensor_name, description] : expected["tensors"].items()) {
      SCOPED_TRACE(tensor_name);
      expect_tensor(find_tensor(value.item(name), tensor_name), description);
    }
    ++files;
  }
  EXPECT_GE(files, 7);
}

TEST(FormatSamples, OtherEntriesAreRead) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  const Value zoo = read_torch_file(samples() / "model_zoo_protocol4.pkl");
  EXPECT_EQ(zoo.item("zoo")["__author__"].string(), "test");
  const Value training = read_torch_file(samples() / "training_checkpoint.pth");
  EXPECT_EQ(training.item("training")["iteration"].integer(), 89999);
}

TEST(FormatSamples, ViewsShareTheirStorage) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  const Value value = read_torch_file(samples() / "dtypes_and_views.pth");
  const Item item = value.item("views");
  const Tensor whole = item["whole"].tensor();
  for (const char* name : {"row", "transposed", "strided"}) {
    EXPECT_TRUE(item[name].tensor().is_alias_of(whole)) << name;
  }
  EXPECT_FALSE(item["transposed"].tensor().is_contiguous());
}

TEST(FormatSamples, HostileAndCutFilesAreRefused) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  const nlohmann::json all = expectations();
  for (const auto& [name, expected] : all.items()) {
    if (expected.value("refuse", false)) {
      testing::internal::CaptureStdout();
      EXPECT_THROW(read_torch_file(samples() / name), Error) << name;
      EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << name;
    }
  }
}

/// Reading must end, in a value or an Error; anything else stops the test program.
void read_whatever(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  try {
    read_torch_file(path);
  } catch (const Error&) {
  }
}

TEST(FormatSamples, EveryTruncationIsRefused) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  const test::TemporaryFolder folder;
  for (const char* name : {"state_dict_zip.pth", "state_dict_legacy.pth", "model_zoo_protocol2.pkl",
                           "model_zoo_protocol4.pkl", "dtypes_and_views.pth", "caffe2_blobs.pkl"}) {
    const std::string content = files::read(samples() / name);
    for (std::size_t size = 0; size < content.size(); size += 97) {
      std::ofstream(folder / "cut", std::ios::binary) << content.substr(0, size);
      EXPECT_THROW(read_torch_file(folder / "cut"), Error) << name << " cut to " << size;
    }
  }
}

TEST(FormatSamples, RandomDamageNeverCrashes) {
  DETFORGE_REQUIRE_TEST_DATA("weights/format_samples");
  const test::TemporaryFolder folder;
  std::mt19937_64 random(20261130);
  for (const char* name :
       {"state_dict_zip.pth", "state_dict_legacy.pth", "model_zoo_protocol2.pkl",
        "model_zoo_protocol4.pkl", "dtypes_and_views.pth", "training_checkpoint.pth"}) {
    const std::string content = files::read(samples() / name);
    for (int round = 0; round < 150; ++round) {
      std::string bad = content;
      for (int flips = 0; flips < 1 + round % 4; ++flips) {
        // Half of the damage goes to the structure at the front, where it matters most.
        const std::size_t range =
            round % 2 == 0 ? bad.size() : std::min<std::size_t>(bad.size(), 800);
        bad[random() % range] = static_cast<char>(random() & 0xFF);
      }
      read_whatever(folder / "bad", bad);
    }
  }
}

void expect_equal_to_npz(const Item& model, const test::Npz& arrays) {
  std::size_t compared = 0;
  for (const auto& [name, array] : arrays) {
    const Tensor tensor = model[name].tensor();
    // The .npz keeps numbers without dimension (counters of BatchNorm) as arrays of one.
    const Tensor expected = test::to_tensor(array);
    EXPECT_TRUE(tensor.equal(tensor.dim() == 0 ? expected.squeeze(0) : expected)) << name;
    ++compared;
  }
  EXPECT_GT(compared, 10U);
}

bool has_any_weights(const nlohmann::json& /*description*/) {
  return true;
}

TEST(WeightFilesParity, PthAndPklEqualNpz) {
  int files = 0;
  for (const test::ParityCase& parity : test::parity_cases(has_any_weights)) {
    for (const char* name : {"weights.pth", "weights.pkl"}) {
      const std::filesystem::path path = parity.folder / name;
      if (std::filesystem::exists(path) && std::filesystem::exists(parity.folder / "weights.npz")) {
        SCOPED_TRACE(path.string());
        const Value value = read_torch_file(path);
        const bool mmdetection = value.find("state_dict") != nullptr;
        expect_equal_to_npz(value.item("file")[mmdetection ? "state_dict" : "model"],
                            test::read_npz(parity.folder / "weights.npz"));
        ++files;
      }
    }
  }
  if (files == 0) {
    GTEST_SKIP() << "no weights.pth or weights.pkl in the parity folders";
  }
}

}  // namespace
}  // namespace detforge
