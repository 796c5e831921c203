#include "detforge/serialize/torch_file.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/zip_archive.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

Value sample_value() {
  const Tensor shared = torch::arange(6, torch::kFloat).reshape({2, 3});
  return Value::dict()
      .set("model", Value::dict().set("a", shared).set("again", shared).set("t", shared.t()))
      .set("half", torch::tensor({0.5, -2.0}).to(torch::kHalf))
      .set("flags", torch::tensor({true, false}))
      .set("scalar", torch::tensor(3, torch::kLong))
      .set("empty", torch::empty({0, 4}))
      .set("iteration", std::int64_t{1} << 40)
      .set("small", -5)
      .set("lr", 0.01)
      .set("text", "caf\u00e9")
      .set("raw", Value::Bytes{std::string("\x00\xff\x80", 3)})
      .set("list", Value::list({1, Value(), true}))
      .set("tuple", Value::tuple({}))
      .set(3, "three");
}

std::string refusal(const std::filesystem::path& path) {
  try {
    read_torch_file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TorchFile, RoundTripKeepsEverything) {
  const test::TemporaryFolder folder;
  write_torch_file(folder / "sub/x.pth", sample_value());
  const Value value = read_torch_file(folder / "sub/x.pth");
  const Item item = value.item("x");
  const Tensor a = torch::arange(6, torch::kFloat).reshape({2, 3});
  EXPECT_TRUE(item["model"]["a"].tensor().equal(a));
  EXPECT_TRUE(item["model"]["t"].tensor().equal(a.t()));
  EXPECT_EQ(item["model"]["a"].tensor().data_ptr(), item["model"]["again"].tensor().data_ptr());
  EXPECT_TRUE(item["half"].tensor().equal(torch::tensor({0.5, -2.0}).to(torch::kHalf)));
  EXPECT_TRUE(item["flags"].tensor().equal(torch::tensor({true, false})));
  EXPECT_EQ(item["scalar"].tensor().dim(), 0);
  EXPECT_EQ(item["scalar"].tensor().item<std::int64_t>(), 3);
  EXPECT_EQ(item["empty"].tensor().sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(item["iteration"].integer(), std::int64_t{1} << 40);
  EXPECT_EQ(item["small"].integer(), -5);
  EXPECT_EQ(item["lr"].number(), 0.01);
  EXPECT_EQ(item["text"].string(), "caf\u00e9");
  EXPECT_EQ(item["raw"].bytes(), std::string("\x00\xff\x80", 3));
  EXPECT_TRUE(item["list"][2].boolean());
  EXPECT_EQ(item["tuple"].value().kind(), Value::Kind::kTuple);
  EXPECT_EQ(item[3].string(), "three");
}

TEST(TorchFile, EqualValuesGiveEqualBytes) {
  const test::TemporaryFolder folder;
  write_torch_file(folder / "a.pth", sample_value());
  write_torch_file(folder / "b.pth", sample_value());
  EXPECT_EQ(files::read(folder / "a.pth"), files::read(folder / "b.pth"));
}

TEST(TorchFile, RefusesValuesThatPythonCouldNotRead) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(write_torch_file(folder / "a.pth", Value::list({"\xff"})), Error);
  EXPECT_THROW(
      write_torch_file(folder / "a.pth", Value::list({torch::zeros({1}, torch::kComplexFloat)})),
      Error);
  EXPECT_THROW(write_torch_file(folder / "a.pth", Value::list({Tensor()})), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TorchFile, SafetensorsRoundTrip) {
  const test::TemporaryFolder folder;
  const Tensor a = torch::rand({3, 2});
  write_safetensors(folder / "x.safetensors", Value::dict()
                                                  .set("b", torch::tensor({true, false}))
                                                  .set("a", a)
                                                  .set("format", "pt")
                                                  .set("none", torch::empty({0})));
  const Value value = read_torch_file(folder / "x.safetensors");
  EXPECT_TRUE(value.item("x")["a"].tensor().equal(a));
  EXPECT_TRUE(value.item("x")["b"].tensor().equal(torch::tensor({true, false})));
  EXPECT_EQ(value.item("x")["none"].tensor().numel(), 0);
  EXPECT_EQ(value.item("x")["__metadata__"]["format"].string(), "pt");
}

TEST(TorchFile, SaysWhatOtherFilesAre) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "empty", "");
  files::write_atomic(folder / "page", "<html>404</html>");
  files::write_atomic(folder / "lfs", "version https://git-lfs.github.com/spec/v1\n");
  files::write_atomic(folder / "text", "hello");
  EXPECT_NE(refusal(folder / "empty").find("empty"), std::string::npos);
  EXPECT_NE(refusal(folder / "page").find("web page"), std::string::npos);
  EXPECT_NE(refusal(folder / "lfs").find("Git LFS"), std::string::npos);
  EXPECT_NE(refusal(folder / "text").find("no known weights format"), std::string::npos);
  EXPECT_NE(refusal(folder / "missing").find("no such file"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("no such file"), std::string::npos);
}

TEST(TorchFile, ErrorsNameTheFile) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "bad.pth", "hello");
  EXPECT_NE(refusal(folder / "bad.pth").find("where: " + (folder / "bad.pth").string()),
            std::string::npos);
}

TEST(TorchFile, DetectsEveryFlippedBitOfTheNumbers) {
  const test::TemporaryFolder folder;
  write_torch_file(folder / "x.pth", Value::dict().set("w", torch::arange(16, torch::kFloat)));
  const std::string good = files::read(folder / "x.pth");
  const float first[] = {0.0F, 1.0F, 2.0F};
  const std::size_t start =
      good.find(std::string(reinterpret_cast<const char*>(first), sizeof first));
  ASSERT_NE(start, std::string::npos);
  EXPECT_EQ(start % 64, 0U);
  for (std::size_t i = start; i < start + 64; i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    files::write_atomic(folder / "bad.pth", bad);
    EXPECT_NE(refusal(folder / "bad.pth").find("damaged"), std::string::npos) << "byte " << i;
  }
}

TEST(ZipArchive, Zip64IsReadBack) {
  const test::TemporaryFolder folder;
  {
    ZipWriter writer(folder / "big.zip", /*force_zip64=*/true);
    writer.add("a/one", "12345", 5);
    writer.add("a/none", nullptr, 0);
    writer.finish();
  }
  const ZipReader reader(folder / "big.zip");
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a/one", "a/none"}));
  std::string text(5, ' ');
  reader.read("a/one", text.data(), 5);
  EXPECT_EQ(text, "12345");
  EXPECT_EQ(reader.size("a/none"), 0);
  EXPECT_FALSE(reader.size("a/two").has_value());
}

TEST(ZipArchive, FullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full";
  }
  ZipWriter writer("/dev/full");
  const std::string data(1 << 20, 'x');
  writer.add("a", data.data(), data.size());
  EXPECT_THROW(writer.finish(), Error);
}

}  // namespace
}  // namespace detforge
