#include "detforge/serialize/unpickler.h"

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/byte_reader.h"
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
      : input_(input, position), storages_(storages), arena_(input.size()) {}

  Value run() {
    for (;;) {
      const char op = input_.take(1)[0];
      if (op == '.') {
        return to_value(pop(), arena_);
      }
      if (!run_number(op) && !run_text(op) && !run_container(op) && !run_memo(op) &&
          !run_call(op)) {
        fail_malformed(fmt::format("opcode 0x{:02x} at byte {}", static_cast<unsigned char>(op),
                                   input_.position() - 1));
      }
    }
  }

  std::size_t position() const { return input_.position(); }

 private:
  // --- stack
  // What an opcode ends with returns true, for "this opcode is done".
  bool push(Object* object) {
    stack_.push_back(object);
    return true;
  }
  bool push_new(Data data) { return push(arena_.make(std::move(data))); }

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
      case 'N':
        return push_new({});
      case '\x88':
        return push_new(true);
      case '\x89':
        return push_new(false);
      case 'K':
        return push_new(static_cast<std::int64_t>(input_.take_unsigned(1)));
      case 'M':
        return push_new(static_cast<std::int64_t>(input_.take_unsigned(2)));
      case 'J':
        return push_new(std::int64_t{static_cast<std::int32_t>(input_.take_unsigned(4))});
      case '\x8a':
        return push_new(input_.take_long(input_.take_unsigned(1)));
      case '\x8b':
        return push_new(input_.take_long(input_.take_unsigned(4)));
      case 'G':
        return push_new(input_.take_double());
      case 'F':
        return push_new(parse_double(input_.take_line()));
      case 'I':
        return push_decimal(input_.take_line());
      case 'L':
        return push_decimal(input_.take_line());
      default:
        return false;
    }
  }

  bool push_decimal(std::string_view line) {
    if (line == "00" || line == "01") {  // protocol 0's False and True
      return push_new(line == "01");
    }
    if (!line.empty() && line.back() == 'L') {
      line.remove_suffix(1);
    }
    return push_new(parse_integer(line));
  }

  bool run_text(char op) {
    switch (op) {
      case 'X':
        return push_text(input_.take_unsigned(4));
      case '\x8c':
        return push_text(input_.take_unsigned(1));
      case '\x8d':
        return push_text(input_.take_unsigned(8));
      case 'B':
        return push_new(Value::Bytes{std::string(input_.take(input_.take_unsigned(4)))});
      case 'C':
        return push_new(Value::Bytes{std::string(input_.take(input_.take_unsigned(1)))});
      case '\x8e':
        return push_new(Value::Bytes{std::string(input_.take(input_.take_unsigned(8)))});
      case '\x96':
        return push_new(Value::Bytes{std::string(input_.take(input_.take_unsigned(8)))});
      case 'T':
        return push_new(ByteString{std::string(input_.take(input_.take_unsigned(4)))});
      case 'U':
        return push_new(ByteString{std::string(input_.take(input_.take_unsigned(1)))});
      case 'S':
        return push_new(ByteString{unescape_string(input_.take_line())});
      case 'V':
        return push_new(unescape_unicode(input_.take_line()));
      default:
        return false;
    }
  }

  bool push_text(std::uint64_t size) { return push_new(std::string(input_.take(size))); }

  bool run_container(char op) {
    switch (op) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        return push(top());
      case ']':
        return push_new(Sequence{});
      case 'l':
        return push_new(Sequence{.is_tuple = false, .items = pop_to_mark()});
      case '\x8f':
        return push_new(Sequence{});  // an empty set, read as a list
      case '\x91':
        return push_new(Sequence{.is_tuple = false, .items = pop_to_mark()});  // a frozenset
      case ')':
        return push_new(Sequence{.is_tuple = true, .items = {}});
      case 't':
        return push_new(Sequence{.is_tuple = true, .items = pop_to_mark()});
      case '\x85':
        return push_tuple(1);
      case '\x86':
        return push_tuple(2);
      case '\x87':
        return push_tuple(3);
      case '}':
        return push_new(Mapping{});
      case 'd':
        push_new(Mapping{});
        return add_entries_below_dict();
      case 'a': {
        Object* item = pop();
        return append({item});
      }
      case 'e':
      case '\x90':
        return append(pop_to_mark());
      case 's': {
        Object* value = pop();
        Object* key = pop();
        return add_entries({key, value});
      }
      case 'u':
        return add_entries(pop_to_mark());
      default:
        return false;
    }
  }

  bool push_tuple(std::size_t size) {
    Sequence tuple{.is_tuple = true, .items = Arguments(size)};
    for (std::size_t i = size; i-- > 0;) {
      tuple.items[i] = pop();
    }
    return push_new(std::move(tuple));
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
      case 'p':
        return remember(static_cast<std::uint64_t>(parse_integer(input_.take_line())));
      case 'q':
        return remember(input_.take_unsigned(1));
      case 'r':
        return remember(input_.take_unsigned(4));
      case '\x94':
        return remember(memo_.size());
      case 'g':
        return recall(static_cast<std::uint64_t>(parse_integer(input_.take_line())));
      case 'h':
        return recall(input_.take_unsigned(1));
      case 'j':
        return recall(input_.take_unsigned(4));
      default:
        return false;
    }
  }

  bool remember(std::uint64_t key) {
    arena_.charge(memo_.count(key) == 0 ? 32 : 0);
    memo_[key] = top();
    return true;
  }

  bool recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      fail_malformed(fmt::format("memo entry {} is missing", key));
    }
    return push(found->second);
  }

  bool run_call(char op) {
    switch (op) {
      case '\x80':
        check_protocol(input_.take_unsigned(1));
        return true;
      case '\x95':
        input_.take_unsigned(8);
        return true;  // a frame's length: only a hint for reading
      case '\x98':
        return true;  // marks a buffer read-only
      case 'c':
        return push_global();
      case '\x93':
        return push_stack_global();
      case 'R':
      case '\x81': {
        Object* arguments = pop();
        return call_with(pop(), arguments);
      }
      case '\x92':
        pop();  // keyword arguments: none of the known functions has any
        return run_call('\x81');
      case 'b': {
        Object* state = pop();
        set_state(top(), state, arena_);
        return true;
      }
      case 'Q':
        return push_storage(pop());
      default:
        return false;
    }
  }

  static void check_protocol(std::uint64_t protocol) {
    if (protocol > 5) {
      fail_malformed(fmt::format("protocol {}", protocol));
    }
  }

  bool push_global() {
    const std::string module(input_.take_line());
    const std::string name(input_.take_line());
    return push(find_global(module, name, arena_));
  }

  bool push_stack_global() {
    Object* name = pop();
    Object* module = pop();
    return push(find_global(expect_text(module, "a module's name"),
                            expect_text(name, "a function's name"), arena_));
  }

  bool call_with(Object* function, Object* arguments) {
    return push(call(expect<Global>(function, "what is called"),
                     expect<Sequence>(arguments, "a call's arguments").items, arena_));
  }

  /// torch.save's persistent id: ('storage', class, key, location, numel[, view]).
  bool push_storage(Object* id) {
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
                   "a storage that is a view of another one (torch 0.3 or older)",
                   "save it again with a newer torch");
    return push_new(Storage{storages_->load(expect_text(items[2], "a storage's key"), *dtype,
                                            expect<std::int64_t>(items[4], "a storage's size"))});
  }

  ByteReader input_;
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
