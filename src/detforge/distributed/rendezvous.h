#pragma once

#include <memory>
#include <string>
#include <vector>

#include "detforge/distributed/key_store.h"
#include "detforge/distributed/process_group.h"

namespace detforge {

/// Connects to the store of the run, or serves it, and waits until every rank is there. Returns
/// each rank's address. Throws as join_process_group() says.
std::vector<std::string> meet(KeyStore& store,
                              const ProcessGroupOptions& options,
                              const std::string& own_address);

}  // namespace detforge
