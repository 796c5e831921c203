#include "detforge/serialize/unpickler.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

using std::string_literals::operator""s;

Value load(const std::string& pickle) {
  return Unpickler(pickle, nullptr).load();
}

std::string refusal(const std::string& pickle) {
  try {
    load(pickle);
  } catch (const Error& error) {
    return error.message();
  }
  return "accepted";
}

// The pickles in these tests are written by hand from the opcode table of Python's
// Lib/pickletools.py.

TEST(Unpickler, ReadsNumbersOfEveryOpcode) {
  const Value value =
      load("\x80\x02(K\x07M\x01\x02J\xff\xff\xff\xff\x8a\x09\0\0\0\0\0\0\0\0\0"s.substr(0, 13) +
           "\x8a\x02\x00\x80\x8a\x00\x88\x89NG\x3f\xe0\0\0\0\0\0\0t."s);
  const Item item = value.item("v");
  EXPECT_EQ(item[0].integer(), 7);
  EXPECT_EQ(item[1].integer(), 0x201);
  EXPECT_EQ(item[2].integer(), -1);
  EXPECT_EQ(item[3].integer(), -32768);
  EXPECT_EQ(item[4].integer(), 0);
  EXPECT_TRUE(item[5].boolean());
  EXPECT_FALSE(item[6].boolean());
  EXPECT_TRUE(item[7].is_none());
  EXPECT_EQ(item[8].number(), 0.5);
}

TEST(Unpickler, ReadsProtocolZero) {
  // pickle.dumps({'a': [1, 2.5, True, u'\u00e9']}, 0), as Python 2 writes it
  const Value value = load("(dp0\nS'a'\np1\n(lp2\nI1\naF2.5\naI01\naV\\u00e9\np3\nas."s);
  const Item list = value.item("v")["a"];
  EXPECT_EQ(list[0].integer(), 1);
  EXPECT_EQ(list[1].number(), 2.5);
  EXPECT_TRUE(list[2].boolean());
  EXPECT_EQ(list[3].string(), "\u00e9");
}

TEST(Unpickler, ReadsContainersAndMemo) {
  // {'k': ('x', 'x')} with the second 'x' from the memo; frames and MEMOIZE of protocol 4
  const Value value =
      load("\x80\x04\x95\x12\0\0\0\0\0\0\0}\x94(\x8c\x01k\x94\x8c\x01x\x94h\x02\x86\x94u."s);
  EXPECT_EQ(value.item("v")["k"][1].string(), "x");
}

TEST(Unpickler, LaterEntryOfOneKeyWins) {
  const Value value = load("\x80\x02}(X\x01\0\0\0aK\x01X\x01\0\0\0aK\x02u."s);
  ASSERT_EQ(value.entries()->size(), 1U);
  EXPECT_EQ(value.item("v")["a"].integer(), 2);
}

TEST(Unpickler, ReadsOrderedDictWithoutItsMetadata) {
  const Value value = load(
      "\x80\x02"
      "ccollections\nOrderedDict\n)RX\x01\0\0\0aK\x01s}X\x09\0\0\0_metadataNsb."s);
  ASSERT_EQ(value.entries()->size(), 1U);
  EXPECT_EQ(value.item("v")["a"].integer(), 1);
}

TEST(Unpickler, ReadsNamespaceAsDict) {
  const Value value = load(
      "\x80\x02"
      "cargparse\nNamespace\n)\x81}X\x02\0\0\0lrG\x3f\xe0\0\0\0\0\0\0sb."s);
  EXPECT_EQ(value.item("v")["lr"].number(), 0.5);
}

TEST(Unpickler, ReadsTorchNames) {
  const Value value = load(
      "\x80\x02(ctorch\nSize\n(K\x02K\x03t\x85Rctorch\nfloat16\nctorch\ndevice\nX\x04\0\0\0cudaK\x01\x86Rt."s);
  EXPECT_EQ(value.item("v")[0][1].integer(), 3);
  EXPECT_EQ(value.item("v")[1].string(), "torch.float16");
  EXPECT_EQ(value.item("v")[2].string(), "cuda:1");
}

/// numpy.array of this dtype, shape (n,), in the form that protocol 3 has.
std::string numpy_pickle(const std::string& dtype,
                         char order,
                         int count,
                         const std::string& bytes,
                         bool fortran = false,
                         const std::string& shape = "") {
  const auto size = std::string(1, static_cast<char>(bytes.size()));
  const std::string dims = shape.empty() ? "K"s + static_cast<char>(count) + "\x85" : shape;
  return "\x80\x03"
         "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"
         "C\x01"
         "b\x87R(K\x01"s +
         dims + "cnumpy\ndtype\nX\x02\0\0\0"s + dtype + "\x89\x88\x87R(K\x03X\x01\0\0\0"s + order +
         "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"s + (fortran ? "\x88" : "\x89") + "C" + size +
         bytes + "tb.";
}

TEST(Unpickler, ReadsNumpyArrays) {
  const Value small = load(numpy_pickle("i2", '<', 2, "\x01\0\xff\xff"s));
  EXPECT_TRUE(small.item("v").tensor().equal(torch::tensor({1, -1}, torch::kShort)));
  const Value big_endian = load(numpy_pickle("f4", '>', 1, "\x3f\x80\0\0"s));
  EXPECT_TRUE(big_endian.item("v").tensor().equal(torch::tensor({1.0F})));
  const Value unsigned16 = load(numpy_pickle("u2", '<', 2, "\xff\xff\x01\0"s));
  EXPECT_TRUE(unsigned16.item("v").tensor().equal(torch::tensor({65535, 1}, torch::kInt)));
  const Value flags = load(numpy_pickle("b1", '|', 2, "\x02\0"s));
  EXPECT_TRUE(flags.item("v").tensor().equal(torch::tensor({true, false})));
}

TEST(Unpickler, ReadsFortranOrder) {
  // [[1, 2, 3], [4, 5, 6]] in column order is 1 4 2 5 3 6
  const Value value =
      load(numpy_pickle("u1", '|', 0, "\x01\x04\x02\x05\x03\x06"s, true, "K\x02K\x03\x86"));
  EXPECT_TRUE(value.item("v").tensor().equal(torch::tensor({{1, 2, 3}, {4, 5, 6}}, torch::kByte)));
}

TEST(Unpickler, RefusesArraysWhoseBytesDoNotFit) {
  EXPECT_NE(refusal(numpy_pickle("f4", '<', 3, "\0\0\0\0"s)).find("shape [3] with 4 bytes"),
            std::string::npos);
  EXPECT_NE(refusal(numpy_pickle("O8", '|', 1, "\0\0\0\0\0\0\0\0"s)).find("type 'O8'"),
            std::string::npos);
  EXPECT_NE(refusal(numpy_pickle("u8", '<', 1, "\xff\xff\xff\xff\xff\xff\xff\xff"s)).find("9.2e18"),
            std::string::npos);
}

TEST(Unpickler, RefusesFunctionsByName) {
  EXPECT_EQ(refusal("\x80\x02"
                    "c__builtin__\nprint\nX\x01\0\0\0a\x85R."s),
            "the file wants to call builtins.print; DetForge never executes pickled code");
  EXPECT_EQ(refusal("cos\nsystem\n(S'echo'\ntR."s),
            "the file wants to call os.system; DetForge never executes pickled code");
  EXPECT_EQ(refusal("\x80\x04\x8c\x05posix\x8c\x06system\x93."s),
            "the file wants to call posix.system; DetForge never executes pickled code");
  // A name with a dot could reach through an allowed module.
  EXPECT_EQ(refusal("\x80\x04\x8c\x05torch\x8c\x0dSize.__init__\x93."s),
            "the file wants to call torch.Size.__init__; DetForge never executes pickled code");
}

TEST(Unpickler, RefusesWhatIsNoData) {
  EXPECT_NE(refusal("\x80\x02"
                    "ccollections\nOrderedDict\n."s),
            "accepted");  // the class itself
  EXPECT_NE(refusal("\x80\x02"
                    "cnumpy.core.multiarray\n_reconstruct\n)R."s),
            "accepted");
  EXPECT_NE(refusal("\x80\x02}(NNu."s), "accepted");          // None as key
  EXPECT_NE(refusal("\x80\x02X\x01\0\0\0aQ."s), "accepted");  // a storage without a container
  EXPECT_NE(refusal("\x80\x06N."s), "accepted");
  EXPECT_NE(refusal(""), "accepted");
  EXPECT_NE(refusal("."), "accepted");
  EXPECT_NE(refusal("\x80\x02(."), "accepted");
  EXPECT_NE(refusal("\x80\x02h\x05."), "accepted");
}

TEST(Unpickler, RefusesHugeLengthsWithoutAllocating) {
  EXPECT_NE(refusal("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"s), "accepted");
  EXPECT_NE(refusal("\x80\x02X\xff\xff\xff\xff"s), "accepted");
  EXPECT_NE(refusal("\x80\x02\x8b\xff\xff\xff\xff"s), "accepted");
}

TEST(Unpickler, RefusesDeepNestingAndCycles) {
  std::string deep = "\x80\x02";
  for (int i = 0; i < 100'000; ++i) {
    deep += "]";
  }
  deep += std::string(99'999, 'a') + ".";
  EXPECT_NE(refusal(deep).find("nest deeper"), std::string::npos);
  EXPECT_NE(refusal("\x80\x02]q\0h\0a."s).find("nest deeper"), std::string::npos);
}

TEST(Unpickler, RefusesExponentialGrowth) {
  // l0 = ['x']; l(n+1) = [l(n) five times]: 5^40 items in 500 bytes
  std::string bomb = "\x80\x02](X\x01\0\0\0xe"s;
  for (char i = 0; i < 40; ++i) {
    const std::string get = std::string("h") + i;
    bomb += std::string("q") + i + "0](" + get + get + get + get + get + "e";
  }
  EXPECT_NE(refusal(bomb + ".").find("many times its own size"), std::string::npos);
  // and text that doubles through a shared megabyte
  std::string text = "\x80\x02X\0\0\x10\0"s + std::string(1 << 20, 'x') + "q\0]("s;
  for (int i = 0; i < 1000; ++i) {
    text += "h\0"s;
  }
  EXPECT_NE(refusal(text + "e.").find("many times its own size"), std::string::npos);
}

TEST(Unpickler, ContinuesAfterOnePickle) {
  const std::string two = "\x80\x02K\x01.\x80\x02K\x02."s;
  Unpickler unpickler(two, nullptr);
  EXPECT_EQ(unpickler.load().item("v").integer(), 1);
  EXPECT_EQ(unpickler.position(), 5U);
  EXPECT_EQ(unpickler.load().item("v").integer(), 2);
}

}  // namespace
}  // namespace detforge
