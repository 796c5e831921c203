#include "detforge/data/json_values.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::string_view kIdAdvice =
    "ids are integers from -2^63 to 2^63-1, not text and not 1.0; write the file anew";

}  // namespace

std::string_view token_of(simdjson::ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') {
    token.remove_suffix(1);
  }
  return token.substr(0, 40);
}

bool is_null(simdjson::ondemand::value& value) {
  return token_of(value) == "null";
}

std::int64_t read_id(simdjson::ondemand::value& value, std::string_view key) {
  std::int64_t id = 0;
  if (value.get_int64().get(id) == simdjson::SUCCESS) {
    return id;
  }
  throw Error(fmt::format("{} is {}, not a 64-bit integer", key, token_of(value)),
              std::string(kIdAdvice))
      .at(__FILE__, __LINE__);
}

double read_number(simdjson::ondemand::value& value, std::string_view key) {
  double number = 0;
  if (value.get_double().get(number) == simdjson::SUCCESS) {
    return number;
  }
  const std::string token(token_of(value));
  if (token == "NaN" || token == "null") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  char* end = nullptr;
  number = std::strtod(token.c_str(), &end);  // Infinity, and numbers beyond double such as 1e999
  DETFORGE_CHECK(!token.empty() && *end == '\0', fmt::format("{} is {}, not a number", key, token),
                 "numbers stand without quotes");
  return number;
}

std::int64_t read_size(simdjson::ondemand::value& value, std::string_view key) {
  if (is_null(value)) {
    return 0;
  }
  const double number = read_number(value, key);
  DETFORGE_CHECK(number >= 0 && number <= INT32_MAX && number == std::floor(number),
                 fmt::format("{} is {}, not a size in pixels", key, number),
                 "write the image's size as a whole number");
  return static_cast<std::int64_t>(number);
}

bool read_flag(simdjson::ondemand::value& value, std::string_view key) {
  bool flag = false;
  if (value.get_bool().get(flag) == simdjson::SUCCESS) {
    return flag;
  }
  const double number = read_number(value, key);
  DETFORGE_CHECK(number == 0 || number == 1, fmt::format("{} is {}", key, number), "write 0 or 1");
  return number == 1;
}

}  // namespace detforge
