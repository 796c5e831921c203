#include "detforge/serialize/unpickler.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/pickle_calls.h"
#include "detforge/serialize/pickle_object.h"
#include "detforge/serialize/text_codec.h"

namespace detforge {
namespace pickle {
namespace {

/// The stack machine for one pickle. Opcodes: Python's Lib/pickletools.py documents each.
class Machine {
 public:
  Machine(std::string_view input, std::size_t position, StorageSource* storages)
      : input_(input), position_(position), storages_(storages), arena_(input.size()) {}

  Value run() {
    for (;;) {
      const char op = take(1)[0];
      if (op == '.') {
        return to_value(pop(), arena_);
      }
      if (!run_number(op) && !run_text(op) && !run_container(op) && !run_memo(op) && !run_call(op)) {
        fail_malformed(fmt::format("opcode 0x{:02x} at byte {}", static_cast<unsigned char>(op), position_ - 1));
      }
    }
  }

  std::size_t position() const { return position_; }

 private:
  // --- input
  std::string_view take(std::uint64_t count) {
    if (count > input_.size() - position_) {
      fail_malformed(fmt::format("it ends at byte {}, inside an object", input_.size()));
    }
    const std::string_view bytes = input_.substr(position_, static_cast<std::size_t>(count));
    position_ += bytes.size();
    return bytes;
  }

  /// A little-endian unsigned number of `size` bytes.
  std::uint64_t take_unsigned(std::size_t size) {
    std::uint64_t number = 0;
    const std::string_view bytes = take(size);
    for (std::size_t i = 0; i < size; ++i) {
      number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return number;
  }

  std::string_view take_line() {
    const std::size_t end = input_.find('\n', position_);
    if (end == std::string_view::npos) {
      fail_malformed("it ends inside a line");
    }
    const std::string_view line = take(end - position_);
    take(1);
    return line;
  }

  /// A two's complement number of any length that fits 64 bits.
  std::int64_t take_long(std::uint64_t size) {
    const std::string_view bytes = take(size);
    DETFORGE_CHECK(size <= 8, fmt::format("an integer of {} bytes", size), "only 64-bit integers can be read");
    std::uint64_t number = !bytes.empty() && bytes.back() < 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return static_cast<std::int64_t>(number);
  }

  // --- stack
  void push(Object* object) { stack_.push_back(object); }
  void push_new(Data data) { push(arena_.make(std::move(data))); }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Object* top() {
    if (stack_.size() <= floor()) {
      fail_malformed("an object is missing");
    }
    return stack_.back();
  }

  Object* pop() {
    Object* object = top();
    stack_.pop_back();
    return object;
  }

  /// Everything above the last mark.
  Arguments pop_to_mark() {
    if (marks_.empty()) {
      fail_malformed("a mark is missing");
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    Arguments objects(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return objects;
  }

  // --- opcodes, by group; each returns false if `op` is of another group
  bool run_number(char op) {
    switch (op) {
      case 'N': push_new({}); return true;
      case '\x88': push_new(true); return true;
      case '\x89': push_new(false); return true;
      case 'K': push_new(static_cast<std::int64_t>(take_unsigned(1))); return true;
      case 'M': push_new(static_cast<std::int64_t>(take_unsigned(2))); return true;
      case 'J': push_new(std::int64_t{static_cast<std::int32_t>(take_unsigned(4))}); return true;
      case '\x8a': push_new(take_long(take_unsigned(1))); return true;
      case '\x8b': push_new(take_long(take_unsigned(4))); return true;
      case 'G': push_new(take_double()); return true;
      case 'F': push_new(parse_double(take_line())); return true;
      case 'I': push_decimal(take_line()); return true;
      case 'L': push_decimal(take_line()); return true;
      default: return false;
    }
  }

  double take_double() {
    std::uint64_t bits = 0;  // big-endian, unlike everything else
    for (const char byte : take(8)) {
      bits = bits << 8 | static_cast<unsigned char>(byte);
    }
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }

  static double parse_double(std::string_view line) {
    const std::string text(line);
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') {
      fail_malformed("a broken number");
    }
    return number;
  }

  static std::int64_t parse_integer(std::string_view line) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (line.empty() || error != std::errc{} || end != line.data() + line.size()) {
      fail_malformed("a broken or too big integer");
    }
    return number;
  }

  static std::uint64_t parse_index(std::string_view line) { return static_cast<std::uint64_t>(parse_integer(line)); }

  void push_decimal(std::string_view line) {
    if (line == "00" || line == "01") {  // protocol 0's False and True
      return push_new(line == "01");
    }
    if (!line.empty() && line.back() == 'L') {
      line.remove_suffix(1);
    }
    push_new(parse_integer(line));
  }

  bool run_text(char op) {
    switch (op) {
      case 'X': push_text(take_unsigned(4)); return true;
      case '\x8c': push_text(take_unsigned(1)); return true;
      case '\x8d': push_text(take_unsigned(8)); return true;
      case 'B': push_new(Value::Bytes{std::string(take(take_unsigned(4)))}); return true;
      case 'C': push_new(Value::Bytes{std::string(take(take_unsigned(1)))}); return true;
      case '\x8e': push_new(Value::Bytes{std::string(take(take_unsigned(8)))}); return true;
      case '\x96': push_new(Value::Bytes{std::string(take(take_unsigned(8)))}); return true;
      case 'T': push_new(ByteString{std::string(take(take_unsigned(4)))}); return true;
      case 'U': push_new(ByteString{std::string(take(take_unsigned(1)))}); return true;
      case 'S': push_new(ByteString{unescape_string(take_line())}); return true;
      case 'V': push_new(unescape_unicode(take_line())); return true;
      default: return false;
    }
  }

  void push_text(std::uint64_t size) { push_new(std::string(take(size))); }

  bool run_container(char op) {
    switch (op) {
      case '(': marks_.push_back(stack_.size()); return true;
      case '0': pop(); return true;
      case '1': pop_to_mark(); return true;
      case '2': push(top()); return true;
      case ']': push_new(Sequence{}); return true;
      case 'l': push_new(Sequence{.is_tuple = false, .items = pop_to_mark()}); return true;
      case '\x8f': push_new(Sequence{}); return true;  // an empty set, read as a list
      case '\x91': push_new(Sequence{.is_tuple = false, .items = pop_to_mark()}); return true;  // a frozenset
      case ')': push_new(Sequence{.is_tuple = true, .items = {}}); return true;
      case 't': push_new(Sequence{.is_tuple = true, .items = pop_to_mark()}); return true;
      case '\x85': push_tuple(1); return true;
      case '\x86': push_tuple(2); return true;
      case '\x87': push_tuple(3); return true;
      case '}': push_new(Mapping{}); return true;
      case 'd': push_new(Mapping{}); return add_entries_below_dict(); 
      case 'a': { Object* item = pop(); return append({item}); }
      case 'e': case '\x90': return append(pop_to_mark());
      case 's': { Object* value = pop(); Object* key = pop(); return add_entries({key, value}); }
      case 'u': return add_entries(pop_to_mark());
      default: return false;
    }
  }

  void push_tuple(std::size_t size) {
    Sequence tuple{.is_tuple = true, .items = Arguments(size)};
    for (std::size_t i = size; i-- > 0;) {
      tuple.items[i] = pop();
    }
    push_new(std::move(tuple));
  }

  bool append(const Arguments& items) {
    auto& list = expect<Sequence>(top(), "the list that items are added to");
    list.items.insert(list.items.end(), items.begin(), items.end());
    return true;
  }

  bool add_entries(const Arguments& keys_and_values) {
    auto& mapping = expect<Mapping>(top(), "the dict that entries are added to");
    if (keys_and_values.size() % 2 != 0) {
      fail_malformed("a dict with a key without a value");
    }
    for (std::size_t i = 0; i < keys_and_values.size(); i += 2) {
      mapping.entries.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
    }
    return true;
  }

  /// 'd': a new dict of everything above the mark.
  bool add_entries_below_dict() {
    Object* dict = pop();
    const Arguments keys_and_values = pop_to_mark();
    push(dict);
    return add_entries(keys_and_values);
  }

  bool run_memo(char op) {
    switch (op) {
      case 'p': remember(parse_index(take_line())); return true;
      case 'q': remember(take_unsigned(1)); return true;
      case 'r': remember(take_unsigned(4)); return true;
      case '\x94': remember(memo_.size()); return true;
      case 'g': recall(parse_index(take_line())); return true;
      case 'h': recall(take_unsigned(1)); return true;
      case 'j': recall(take_unsigned(4)); return true;
      default: return false;
    }
  }

  void remember(std::uint64_t key) {
    arena_.charge(memo_.count(key) == 0 ? 32 : 0);
    memo_[key] = top();
  }

  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      fail_malformed(fmt::format("memo entry {} is missing", key));
    }
    push(found->second);
  }

  bool run_call(char op) {
    switch (op) {
      case '\x80': check_protocol(take_unsigned(1)); return true;
      case '\x95': take_unsigned(8); return true;  // a frame's length: only a hint for reading
      case '\x98': return true;                    // marks a buffer read-only
      case 'c': push_global(); return true;
      case '\x93': push_stack_global(); return true;
      case 'R': case '\x81': { Object* arguments = pop(); call_with(pop(), arguments); return true; }
      case '\x92': pop(); { Object* arguments = pop(); call_with(pop(), arguments); return true; }
      case 'b': { Object* state = pop(); set_state(top(), state, arena_); return true; }
      case 'Q': push_storage(pop()); return true;
      default: return false;
    }
  }

  static void check_protocol(std::uint64_t protocol) {
    if (protocol > 5) {
      fail_malformed(fmt::format("protocol {}", protocol));
    }
  }

  void push_global() {
    const std::string module(take_line());
    const std::string name(take_line());
    push(find_global(module, name, arena_));
  }

  void push_stack_global() {
    Object* name = pop();
    Object* module = pop();
    push(find_global(expect_text(module, "a module's name"), expect_text(name, "a function's name"),
                     arena_));
  }

  void call_with(Object* function, Object* arguments) {
    push(call(expect<Global>(function, "what is called"), expect<Sequence>(arguments, "a call's arguments").items,
              arena_));
  }

  /// torch.save's persistent id: ('storage', class, key, location, numel[, view]).
  void push_storage(Object* id) {
    const std::vector<Object*>& items = expect<Sequence>(id, "a persistent id").items;
    DETFORGE_CHECK(storages_ != nullptr, "this pickle keeps its numbers in another file",
                   "give the file that torch.save wrote, not the data.pkl inside it");
    if (items.size() < 5) {
      fail_malformed("a storage with too few arguments");
    }
    const auto dtype = storage_dtype(expect<Global>(items[1], "a storage's class").name);
    if (!dtype) {
      fail_malformed("a storage's class is no storage");
    }
    DETFORGE_CHECK(items.size() == 5 || items[5]->get_if<std::monostate>() != nullptr,
                   "a storage that is a view of another one (torch 0.3 or older)", "save it again with a newer torch");
    push_new(Storage{storages_->load(expect_text(items[2], "a storage's key"), *dtype,
                                     expect<std::int64_t>(items[4], "a storage's size"))});
  }

  std::string_view input_;
  std::size_t position_;
  StorageSource* storages_;
  Arena arena_;
  std::vector<Object*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Object*> memo_;
};

}  // namespace
}  // namespace pickle

Value Unpickler::load() {
  pickle::Machine machine(input_, position_, storages_);
  Value value = machine.run();
  position_ = machine.position();
  return value;
}

}  // namespace detforge
