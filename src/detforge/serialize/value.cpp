#include "detforge/serialize/value.h"

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr const char* kFix =
    "the file was written by another program or version: check that it is the right one";

bool same_key(const Value& key, std::string_view text) {
  const auto* string = key.get_if<std::string>();
  return string != nullptr && *string == text;
}

bool same_key(const Value& key, std::int64_t number) {
  const auto* integer = key.get_if<std::int64_t>();
  return integer != nullptr && *integer == number;
}

template <typename Key>
const Value* find_entry(const Value::Dict* entries, Key key) {
  if (entries != nullptr) {
    for (const Value::Entry& entry : *entries) {
      if (same_key(entry.key, key)) {
        return &entry.value;
      }
    }
  }
  return nullptr;
}

}  // namespace

Value Value::list(List items) {
  Value value;
  value.data_ = std::move(items);
  return value;
}

Value Value::tuple(List items) {
  Value value;
  value.data_ = Tuple{std::move(items)};
  return value;
}

Value Value::dict(Dict entries) {
  Value value;
  value.data_ = std::move(entries);
  return value;
}

const char* Value::kind_name() const {
  static constexpr const char* kNames[] = {"None",     "a boolean", "an integer", "a number",
                                           "a string", "bytes",     "a tensor",   "a list",
                                           "a tuple",  "a dict"};
  return kNames[data_.index()];
}

const Value::List* Value::items() const {
  if (const auto* tuple = std::get_if<Tuple>(&data_)) {
    return &tuple->items;
  }
  return std::get_if<List>(&data_);
}

const Value::Dict* Value::entries() const {
  return std::get_if<Dict>(&data_);
}

const Value* Value::find(std::string_view key) const {
  return find_entry(entries(), key);
}
const Value* Value::find(std::int64_t key) const {
  return find_entry(entries(), key);
}

Value& Value::set(std::string_view key, Value value) {
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);  // NOLINT: *this is not const
    return *this;
  }
  return set_entry(Value(key), std::move(value));
}

Value& Value::set(std::int64_t key, Value value) {
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);  // NOLINT: *this is not const
    return *this;
  }
  return set_entry(Value(key), std::move(value));
}

Value& Value::set_entry(Value key, Value value) {
  auto* dict = std::get_if<Dict>(&data_);
  DETFORGE_CHECK(dict != nullptr, fmt::format("set() on {}, expected a dict", kind_name()),
                 "start with Value::dict()");
  dict->push_back({std::move(key), std::move(value)});
  return *this;
}

Value& Value::append(Value value) {
  auto* list = std::get_if<List>(&data_);
  DETFORGE_CHECK(list != nullptr, fmt::format("append() on {}, expected a list", kind_name()),
                 "start with Value::list()");
  list->push_back(std::move(value));
  return *this;
}

Item Value::item(std::string path) const {
  return {*this, std::move(path)};
}

void Item::fail(const char* expected) const {
  throw Error(fmt::format("{} is {}, expected {}", path_, value_->kind_name(), expected), kFix);
}

template <typename T>
const T& Item::get(const char* expected) const {
  const T* value = value_->get_if<T>();
  if (value == nullptr) {
    fail(expected);
  }
  return *value;
}

std::optional<Item> Item::find(std::string_view key) const {
  static_cast<void>(dict());
  const Value* value = value_->find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  return Item(*value, fmt::format("{}['{}']", path_, key));
}

Item Item::operator[](std::string_view key) const {
  std::optional<Item> found = find(key);
  DETFORGE_CHECK(found.has_value(), fmt::format("{} has no entry '{}'", path_, key), kFix);
  return *std::move(found);
}

Item Item::operator[](std::int64_t index) const {
  std::string path = fmt::format("{}[{}]", path_, index);
  if (value_->entries() != nullptr) {
    const Value* value = value_->find(index);
    DETFORGE_CHECK(value != nullptr, fmt::format("{} has no entry {}", path_, index), kFix);
    return {*value, std::move(path)};
  }
  const Value::List& items = list();
  DETFORGE_CHECK(index >= 0 && index < static_cast<std::int64_t>(items.size()),
                 fmt::format("{} has {} items, item {} is wanted", path_, items.size(), index),
                 kFix);
  return {items[static_cast<std::size_t>(index)], std::move(path)};
}

double Item::number() const {
  if (const auto* integer = value_->get_if<std::int64_t>()) {
    return static_cast<double>(*integer);
  }
  return get<double>("a number");
}

bool Item::boolean() const {
  return get<bool>("a boolean");
}
std::int64_t Item::integer() const {
  return get<std::int64_t>("an integer");
}
const std::string& Item::string() const {
  return get<std::string>("a string");
}
const std::string& Item::bytes() const {
  return get<Value::Bytes>("bytes").data;
}
const Tensor& Item::tensor() const {
  return get<Tensor>("a tensor");
}
const Value::Dict& Item::dict() const {
  return get<Value::Dict>("a dict");
}

const Value::List& Item::list() const {
  const Value::List* items = value_->items();
  if (items == nullptr) {
    fail("a list");
  }
  return *items;
}

}  // namespace detforge
