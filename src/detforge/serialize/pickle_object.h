#pragma once

#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "detforge/serialize/value.h"

/// Inside of the unpickler: what lies on its stack. Not used outside serialize/.
namespace detforge::pickle {

struct Object;
using Arguments = std::vector<Object*>;

/// Python 2's str: text or raw bytes, only the user of it knows.
struct ByteString {
  std::string data;
};
/// The name of an allowed class or function.
struct Global {
  std::string name;  ///< "module.name"
};
struct Storage {
  Tensor numbers;  ///< contiguous, one dimension
};
struct NumpyDtype {
  char kind = 'f';  ///< NumPy's: b i u f
  int size = 4;     ///< bytes an element
  bool swapped = false;
};
/// numpy.core.multiarray._reconstruct()'s result: becomes a Tensor when its state is set.
struct UnfilledArray {};
struct Sequence {
  bool is_tuple = false;
  std::vector<Object*> items;
};
struct Mapping {
  bool is_namespace = false;  ///< its entries come as state
  std::vector<std::pair<Object*, Object*>> entries;
};

using Data = std::variant<std::monostate,
                          bool,
                          std::int64_t,
                          double,
                          std::string,
                          Value::Bytes,
                          ByteString,
                          Tensor,
                          Sequence,
                          Mapping,
                          Global,
                          Storage,
                          NumpyDtype,
                          UnfilledArray>;

struct Object {
  Data data;

  template <typename T>
  T* get_if() {
    return std::get_if<T>(&data);
  }
};

/// Owns all objects of one pickle (so that cycles and deep nesting need no thought) and counts what
/// is made: a pickle can name an object twice in two bytes, so the input's size alone bounds
/// nothing.
class Arena {
 public:
  explicit Arena(std::size_t input_size) : bytes_left_((std::size_t{64} << 20) + 4 * input_size) {}

  Object* make(Data data);
  /// Accounts for memory that is not simply a piece of the input; throws Error when the limit is
  /// reached.
  void charge(std::size_t bytes);

 private:
  static constexpr std::size_t kMaxObjects = 4'000'000;
  std::deque<Object> objects_;
  std::size_t bytes_left_;
};

/// The Error for a file that breaks the rules of pickles.
[[noreturn]] void fail_malformed(const std::string& what);

/// The object as T; an Error that says `role` if it is something else.
template <typename T>
T& expect(Object* object, const char* role) {
  T* data = object->get_if<T>();
  if (data == nullptr) {
    fail_malformed(std::string(role) + " is of another type than expected");
  }
  return *data;
}

/// Text, also Python 2's; an Error that says `role` if the object is something else.
const std::string& expect_text(Object* object, const char* role);

/// Copies the finished object as a Value. Throws Error for cycles, nesting deeper than 100,
/// functions and half-built objects.
Value to_value(Object* object, Arena& arena);

}  // namespace detforge::pickle
