#include "detforge/serialize/pickle_calls.h"

#include <limits>
#include <set>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/numpy_array.h"
#include "detforge/serialize/text_codec.h"

namespace detforge::pickle {
namespace {

/// Any [..., stride 0, ...] tensor bigger than its storage must stay below this.
constexpr std::int64_t kMaxBroadcastElements = std::int64_t{1} << 26;
constexpr std::size_t kMaxDimensions = 64;

Object* argument(const Arguments& arguments, std::size_t index) {
  if (index >= arguments.size()) {
    fail_malformed("a call with too few arguments");
  }
  return arguments[index];
}

template <typename T>
T& argument_as(const Arguments& arguments, std::size_t index, const char* role) {
  return expect<T>(argument(arguments, index), role);
}

const std::string& text_argument(const Arguments& arguments, std::size_t index, const char* role) {
  return expect_text(argument(arguments, index), role);
}

Object* make_ordered_dict(const Arguments& arguments, Arena& arena) {
  Mapping mapping;
  if (!arguments.empty()) {
    const auto& pairs = argument_as<Sequence>(arguments, 0, "the content of an OrderedDict").items;
    arena.charge(pairs.size() * sizeof(mapping.entries[0]));
    for (Object* pair : pairs) {
      auto& items = expect<Sequence>(pair, "an entry of an OrderedDict").items;
      if (items.size() != 2) {
        fail_malformed("an entry of an OrderedDict without key or value");
      }
      mapping.entries.emplace_back(items[0], items[1]);
    }
  }
  return arena.make(std::move(mapping));
}

Object* make_empty_dict(const Arguments& /*arguments*/, Arena& arena) {
  return arena.make(Mapping{});
}

Object* make_namespace(const Arguments& /*arguments*/, Arena& arena) {
  return arena.make(Mapping{.is_namespace = true, .entries = {}});
}

Object* make_list(const Arguments& arguments, Arena& arena) {
  Sequence list;
  if (!arguments.empty()) {
    list.items = argument_as<Sequence>(arguments, 0, "the items of a set").items;
    arena.charge(list.items.size() * sizeof(Object*));
  }
  return arena.make(std::move(list));
}

/// bytes() and bytearray(text, 'latin1'): how protocol 2 keeps bytes.
Object* make_bytes(const Arguments& arguments, Arena& arena) {
  Value::Bytes bytes;
  if (!arguments.empty()) {
    bytes.data = utf8_to_latin1(text_argument(arguments, 0, "the text of bytes"));
    arena.charge(bytes.data.size());
  }
  return arena.make(std::move(bytes));
}

Object* encode(const Arguments& arguments, Arena& arena) {
  const std::string& encoding = text_argument(arguments, 1, "an encoding");
  DETFORGE_CHECK(encoding == "latin1", fmt::format("bytes are kept in the encoding {}", encoding),
                 "only latin1, which Python's pickle uses, is read");
  return make_bytes(arguments, arena);
}

Object* make_size(const Arguments& arguments, Arena& arena) {
  const Sequence& size = argument_as<Sequence>(arguments, 0, "a torch.Size");
  arena.charge(size.items.size() * sizeof(Object*));
  return arena.make(Sequence{.is_tuple = true, .items = size.items});
}

Object* make_device(const Arguments& arguments, Arena& arena) {
  std::string device = text_argument(arguments, 0, "a torch.device");
  if (arguments.size() > 1) {
    device += fmt::format(":{}", argument_as<std::int64_t>(arguments, 1, "a device index"));
  }
  return arena.make(std::move(device));
}

std::vector<std::int64_t> to_integers(const Sequence& sequence, const char* role) {
  if (sequence.items.size() > kMaxDimensions) {
    fail_malformed(fmt::format("a tensor of {} dimensions", sequence.items.size()));
  }
  std::vector<std::int64_t> numbers;
  for (Object* item : sequence.items) {
    numbers.push_back(expect<std::int64_t>(item, role));
    if (numbers.back() < 0) {
      fail_malformed(fmt::format("{} {}", role, numbers.back()));
    }
  }
  return numbers;
}

/// Throws unless every element of the view lies inside its storage.
void check_view(const std::vector<std::int64_t>& size,
                const std::vector<std::int64_t>& stride,
                std::int64_t offset,
                std::int64_t available) {
  std::int64_t count = 1;
  std::int64_t last = offset;
  bool fits = size.size() == stride.size() && offset >= 0 && offset <= available;
  bool empty = false;
  for (std::size_t i = 0; fits && i < size.size(); ++i) {
    std::int64_t extent = 0;
    empty = empty || size[i] == 0;
    fits = !__builtin_mul_overflow(count, size[i], &count) &&
           !__builtin_mul_overflow(std::max<std::int64_t>(size[i] - 1, 0), stride[i], &extent) &&
           !__builtin_add_overflow(last, extent, &last);
  }
  fits = fits && (empty || last < available) && count <= std::max(available, kMaxBroadcastElements);
  if (!fits) {
    fail_malformed(fmt::format("a tensor of shape [{}] does not fit in its storage of {} elements",
                               fmt::join(size, ", "), available));
  }
}

Object* rebuild_tensor(const Arguments& arguments, Arena& arena) {
  const Tensor& storage = argument_as<Storage>(arguments, 0, "a tensor's storage").numbers;
  const std::int64_t offset = argument_as<std::int64_t>(arguments, 1, "a tensor's offset");
  const auto size = to_integers(argument_as<Sequence>(arguments, 2, "a tensor's size"), "a size");
  const auto stride =
      to_integers(argument_as<Sequence>(arguments, 3, "a tensor's strides"), "a stride");
  check_view(size, stride, offset, storage.numel());
  return arena.make(storage.as_strided(size, stride, offset));
}

Object* rebuild_parameter(const Arguments& arguments, Arena& arena) {
  return arena.make(argument_as<Tensor>(arguments, 0, "a parameter's data"));
}

Object* make_dtype(const Arguments& arguments, Arena& arena) {
  return arena.make(parse_numpy_dtype(text_argument(arguments, 0, "a NumPy dtype's name")));
}

Object* make_unfilled_array(const Arguments& /*arguments*/, Arena& arena) {
  return arena.make(UnfilledArray{});
}

/// The raw numbers of an array, however this protocol keeps bytes.
std::string raw_bytes(Object* object, Arena& arena) {
  if (const auto* bytes = object->get_if<Value::Bytes>()) {
    return bytes->data;
  }
  if (const auto* bytes = object->get_if<ByteString>()) {
    return bytes->data;
  }
  const std::string& text = expect<std::string>(object, "the numbers of a NumPy array");
  arena.charge(text.size());
  return utf8_to_latin1(text);
}

Object* make_scalar(const Arguments& arguments, Arena& arena) {
  const auto& dtype = argument_as<NumpyDtype>(arguments, 0, "a NumPy scalar's dtype");
  const Tensor number = numpy_tensor(dtype, {}, false, raw_bytes(argument(arguments, 1), arena));
  if (number.scalar_type() == at::kBool) {
    return arena.make(number.item<bool>());
  }
  return at::isFloatingType(number.scalar_type()) ? arena.make(number.item<double>())
                                                  : arena.make(number.item<std::int64_t>());
}

/// numpy.core.numeric._frombuffer(bytes, dtype, shape, order): protocol 5.
Object* from_buffer(const Arguments& arguments, Arena& arena) {
  const auto& dtype = argument_as<NumpyDtype>(arguments, 1, "a NumPy array's dtype");
  const auto shape =
      to_integers(argument_as<Sequence>(arguments, 2, "a NumPy array's shape"), "a size");
  const std::string& order = text_argument(arguments, 3, "a NumPy array's order");
  const std::string bytes = raw_bytes(arguments[0], arena);
  arena.charge(2 * bytes.size());
  return arena.make(numpy_tensor(dtype, shape, order == "F", bytes));
}

using Maker = Object* (*)(const Arguments&, Arena&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> kMakers = {
      {"collections.OrderedDict", make_ordered_dict},
      {"collections.defaultdict", make_empty_dict},
      {"argparse.Namespace", make_namespace},
      {"builtins.set", make_list},
      {"builtins.frozenset", make_list},
      {"builtins.bytes", make_bytes},
      {"builtins.bytearray", make_bytes},
      {"_codecs.encode", encode},
      {"torch.Size", make_size},
      {"torch.device", make_device},
      {"torch._utils._rebuild_tensor", rebuild_tensor},
      {"torch._utils._rebuild_tensor_v2", rebuild_tensor},
      {"torch._utils._rebuild_parameter", rebuild_parameter},
      {"torch._utils._rebuild_parameter_with_state", rebuild_parameter},
      {"numpy.dtype", make_dtype},
      {"numpy.core.multiarray._reconstruct", make_unfilled_array},
      {"numpy.core.multiarray.scalar", make_scalar},
      {"numpy.core.numeric._frombuffer", from_buffer},
  };
  return kMakers;
}

/// Classes that only appear as an argument: of _reconstruct and of defaultdict.
bool is_named_type(const std::string& name) {
  static const std::set<std::string> kNames = {
      "numpy.ndarray", "builtins.dict", "builtins.list",   "builtins.int", "builtins.float",
      "builtins.str",  "builtins.long", "builtins.unicode"};  // int and str in Python 2
  return kNames.count(name) != 0;
}

/// Renames what moved: Python 2's builtins, NumPy 2's private modules, CUDA storages.
std::string canonical_name(const std::string& module, const std::string& name) {
  std::string canonical = module == "__builtin__"  ? "builtins"
                          : module == "torch.cuda" ? "torch"
                                                   : module;
  if (canonical.rfind("numpy._core.", 0) == 0) {
    canonical.replace(0, 12, "numpy.core.");
  }
  return canonical + "." + name;
}

bool is_torch_dtype(const std::string& name) {
  static const std::set<std::string> kNames = {
      "torch.float32", "torch.float64", "torch.float16", "torch.bfloat16", "torch.uint8",
      "torch.int8",    "torch.int16",   "torch.int32",   "torch.int64",    "torch.bool"};
  return kNames.count(name) != 0;
}

}  // namespace

std::optional<at::ScalarType> storage_dtype(const std::string& name) {
  static const std::map<std::string, at::ScalarType> kTypes = {
      {"torch.FloatStorage", at::kFloat},         {"torch.DoubleStorage", at::kDouble},
      {"torch.HalfStorage", at::kHalf},           {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},           {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort},         {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},           {"torch.BoolStorage", at::kBool},
      {"torch.storage.UntypedStorage", at::kByte}};
  const auto found = kTypes.find(name);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

Object* find_global(const std::string& module, const std::string& name, Arena& arena) {
  std::string canonical = canonical_name(module, name);
  if (is_torch_dtype(canonical)) {
    return arena.make(std::move(canonical));
  }
  const bool allowed =
      makers().count(canonical) != 0 || is_named_type(canonical) || storage_dtype(canonical);
  DETFORGE_CHECK(
      allowed,
      fmt::format("the file wants to call {}; DetForge never executes pickled code", canonical),
      "save the weights alone in Python: torch.save(model.state_dict(), 'weights.pth')");
  return arena.make(Global{std::move(canonical)});
}

Object* call(const Global& function, const Arguments& arguments, Arena& arena) {
  const auto maker = makers().find(function.name);
  if (maker == makers().end()) {
    fail_malformed(function.name + " is no function");
  }
  return maker->second(arguments, arena);
}

void set_state(Object* object, Object* state, Arena& arena) {
  if (auto* mapping = object->get_if<Mapping>()) {
    if (mapping->is_namespace) {
      const auto entries = expect<Mapping>(state, "the state of a Namespace").entries;
      arena.charge(entries.size() * sizeof(entries[0]));
      mapping->entries.insert(mapping->entries.end(), entries.begin(), entries.end());
    }
    return;
  }
  const std::vector<Object*>& items = expect<Sequence>(state, "a state").items;
  if (auto* dtype = object->get_if<NumpyDtype>()) {
    dtype->swapped = text_argument(items, 1, "a NumPy dtype's byte order") == ">";
    return;
  }
  expect<UnfilledArray>(object, "an object with a state");
  const auto shape =
      to_integers(argument_as<Sequence>(items, 1, "a NumPy array's shape"), "a size");
  const auto& dtype = argument_as<NumpyDtype>(items, 2, "a NumPy array's dtype");
  const bool fortran_order = argument_as<bool>(items, 3, "a NumPy array's order");
  const std::string bytes = raw_bytes(argument(items, 4), arena);
  arena.charge(2 * bytes.size());
  object->data = numpy_tensor(dtype, shape, fortran_order, bytes);
}

}  // namespace detforge::pickle
