#pragma once

#include <cstdint>
#include <string_view>

#include <simdjson.h>

namespace detforge {

/// Scalars of a JSON file that people wrote by hand or with any tool. `key` is for the messages;
/// all throw Error that quotes the value if it is not what is wanted.

/// The text of a scalar, at most 40 characters, without the white space behind it. Does not consume
/// it.
std::string_view token_of(simdjson::ondemand::value& value);
bool is_null(simdjson::ondemand::value& value);
/// An integer of 64 bits with its sign, exactly: no text, no 1.0, nothing rounded.
std::int64_t read_id(simdjson::ondemand::value& value, std::string_view key);
/// Any JSON number, and what Python writes for numbers that JSON does not have: NaN, Infinity,
/// 1e999; null is NaN.
double read_number(simdjson::ondemand::value& value, std::string_view key);
/// A whole number of pixels, 640.0 too; 0 for null.
std::int64_t read_size(simdjson::ondemand::value& value, std::string_view key);
/// true, false, 0 or 1.
bool read_flag(simdjson::ondemand::value& value, std::string_view key);

}  // namespace detforge
