#include <cstdlib>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/files.h"
#include "detforge/serialize/torch_file.h"
#include "support/test_data.h"

/// What we write, Python's torch.load reads, and the other way round. Needs Debian's python3-torch.
namespace detforge {
namespace {

/// Runs a Python program; its exit status, with what it printed in `output`.
int run_python(const test::TemporaryFolder& folder, const std::string& program) {
  files::write_atomic(folder / "program.py", program);
  const std::string command =
      "cd '" + folder.path().string() + "' && /usr/bin/python3 program.py > output.txt 2>&1";
  return std::system(command.c_str());
}

bool has_python_torch() {
  static const bool kFound =
      std::system("/usr/bin/python3 -c 'import torch' > /dev/null 2>&1") == 0;
  return kFound;
}

TEST(PythonExchange, PythonReadsWhatWeWrite) {
  if (!has_python_torch()) {
    GTEST_SKIP() << "no python3-torch for /usr/bin/python3";
  }
  const test::TemporaryFolder folder;
  const Tensor a = torch::arange(6, torch::kFloat).reshape({2, 3});
  Value value = Value::dict()
                    .set("model", Value::dict().set("a", a).set("t", a.t()).set("again", a))
                    .set("half", torch::tensor({0.5}).to(torch::kHalf))
                    .set("bf16", torch::tensor({0.5}).to(torch::kBFloat16))
                    .set("flags", torch::tensor({true, false}))
                    .set("scalar", torch::tensor(3, torch::kLong))
                    .set("empty", torch::empty({0, 4}))
                    .set("big", std::int64_t{1} << 40)
                    .set("negative", -(std::int64_t{1} << 40))
                    .set("text", "caf\u00e9")
                    .set("list", Value::list({1, Value(), true}))
                    .set("tuple", Value::tuple({1, 2}))
                    .set(3, "three");
  write_torch_file(folder / "safe.pth", value);
  write_torch_file(folder / "all.pth",
                   value.set("lr", 0.01).set("raw", Value::Bytes{std::string("\x00\xff\x80", 3)}));
  const int status = run_python(folder, R"(
import torch
for d in (torch.load('safe.pth', weights_only=True), torch.load('all.pth')):
    a = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(d['model']['a'], a) and torch.equal(d['model']['t'], a.t())
    assert d['model']['a'].data_ptr() == d['model']['again'].data_ptr()
    assert d['half'].dtype == torch.float16 and d['half'].item() == 0.5
    assert d['bf16'].dtype == torch.bfloat16 and d['bf16'].item() == 0.5
    assert d['flags'].tolist() == [True, False] and d['scalar'].shape == () and d['scalar'].item() == 3
    assert d['empty'].shape == (0, 4)
    assert d['big'] == 2**40 and d['negative'] == -2**40 and d['text'] == 'caf\u00e9'
    assert d['list'] == [1, None, True] and d['tuple'] == (1, 2) and d[3] == 'three'
    assert not any(t.requires_grad for t in d['model'].values())
assert d['raw'] == b'\x00\xff\x80' and d['lr'] == 0.01
)");
  EXPECT_EQ(status, 0) << files::read(folder / "output.txt");
}

TEST(PythonExchange, WeReadWhatPythonWrites) {
  if (!has_python_torch()) {
    GTEST_SKIP() << "no python3-torch for /usr/bin/python3";
  }
  const test::TemporaryFolder folder;
  const int status = run_python(folder, R"(
import argparse, collections, pickle
import numpy as np, torch
net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
with torch.no_grad():
    for i, p in enumerate(net.parameters()): p.fill_(i + 1)
opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
net(torch.ones(1, 1, 4, 4)).sum().backward(); opt.step()
with torch.no_grad():
    net[0].weight.fill_(7)
extra = dict(parameter=torch.nn.Parameter(torch.ones(2)), size=torch.ones(2, 3).size(), device=torch.device('cpu'),
             dtype=torch.float16, args=argparse.Namespace(lr=0.5), raw=b'\x00\xff', none=b'', many={1, 2},
             expanded=torch.ones(1).expand(3), counts=collections.defaultdict(int, a=1), score=np.float64(0.25), n=np.int64(5))
everything = dict(model=net.state_dict(), optimizer=opt.state_dict(), **extra)
torch.save(everything, 'zip.pth')
torch.save(everything, 'legacy.pth', _use_new_zipfile_serialization=False)
arrays = dict(f=np.arange(6, dtype=np.float32).reshape(2, 3), t=np.asfortranarray(np.arange(6).reshape(2, 3)),
              swapped=np.array([1.5], dtype='>f8'), u=np.array([65535], dtype=np.uint16), none=np.zeros((0, 2), np.float32))
for protocol in range(6):
    pickle.dump(dict(model=arrays, __author__='x'), open(f'p{protocol}.pkl', 'wb'), protocol=protocol)
)");
  ASSERT_EQ(status, 0) << files::read(folder / "output.txt");
  for (const char* name : {"zip.pth", "legacy.pth"}) {
    SCOPED_TRACE(name);
    const Value value = read_torch_file(folder / name);
    const Item item = value.item(name);
    EXPECT_TRUE(item["model"]["0.weight"].tensor().equal(torch::full({2, 1, 3, 3}, 7.0F)));
    EXPECT_EQ(item["model"]["1.num_batches_tracked"].tensor().item<std::int64_t>(), 1);
    EXPECT_EQ(item["optimizer"]["param_groups"][0]["lr"].number(), 0.5);
    EXPECT_EQ(item["optimizer"]["state"][0]["momentum_buffer"].tensor().numel(), 18);
    EXPECT_TRUE(item["parameter"].tensor().equal(torch::ones({2})));
    EXPECT_TRUE(item["expanded"].tensor().equal(torch::ones({3})));
    EXPECT_EQ(item["size"][1].integer(), 3);
    EXPECT_EQ(item["device"].string(), "cpu");
    EXPECT_EQ(item["dtype"].string(), "torch.float16");
    EXPECT_EQ(item["args"]["lr"].number(), 0.5);
    EXPECT_EQ(item["raw"].bytes(), std::string("\x00\xff", 2));
    EXPECT_EQ(item["none"].bytes(), "");
    EXPECT_EQ(item["many"].list().size(), 2U);
    EXPECT_EQ(item["counts"]["a"].integer(), 1);
    EXPECT_EQ(item["score"].number(), 0.25);
    EXPECT_EQ(item["n"].integer(), 5);
  }
  for (int protocol = 0; protocol < 6; ++protocol) {
    SCOPED_TRACE(protocol);
    const Value value = read_torch_file(folder / ("p" + std::to_string(protocol) + ".pkl"));
    const Item model = value.item("pkl")["model"];
    EXPECT_TRUE(model["f"].tensor().equal(torch::arange(6, torch::kFloat).reshape({2, 3})));
    EXPECT_TRUE(model["t"].tensor().equal(torch::arange(6, torch::kLong).reshape({2, 3})));
    EXPECT_TRUE(model["swapped"].tensor().equal(torch::tensor({1.5}, torch::kDouble)));
    EXPECT_TRUE(model["u"].tensor().equal(torch::tensor({65535}, torch::kInt)));
    EXPECT_EQ(model["none"].tensor().sizes(), at::IntArrayRef({0, 2}));
  }
}

}  // namespace
}  // namespace detforge
