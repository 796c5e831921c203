// Weights files of any bytes: torch.save's zip and its older container, safetensors, model-zoo
// pickles.

#include "detforge/serialize/torch_file.h"
#include "fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  const MemoryFile file(data, size);
  accepts([&] { read_torch_file(file.path()); });
  return 0;
}
