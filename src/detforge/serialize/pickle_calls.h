#pragma once

#include <string>

#include "detforge/serialize/pickle_object.h"

/// The few classes and functions that torch.save and NumPy name in their pickles, and what they
/// mean.
namespace detforge::pickle {

/// The object that stands for a class, function or constant. Throws Error naming it if it is not on
/// the list.
Object* find_global(const std::string& module, const std::string& name, Arena& arena);

/// What `function(*arguments)` describes; nothing is executed.
Object* call(const Global& function, const Arguments& arguments, Arena& arena);

/// What `object.__setstate__(state)` describes: fills NumPy arrays, sets a dtype's byte order, a
/// Namespace's entries.
void set_state(Object* object, Object* state, Arena& arena);

/// The element type of a torch storage class ("torch.FloatStorage"); nothing if `name` is no such
/// class.
std::optional<at::ScalarType> storage_dtype(const std::string& name);

}  // namespace detforge::pickle
