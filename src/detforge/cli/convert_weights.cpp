#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "detforge/cli/commands.h"
#include "detforge/core/error.h"
#include "detforge/export/darknet_convert.h"

namespace detforge {
namespace {

/// "84 convolutions", or how many of them the file has.
std::string convolutions(const DarknetConversion& done) {
  return done.convolutions == done.total
             ? fmt::format("{} convolutions", done.total)
             : fmt::format("{} of {} convolutions (the file ends there)", done.convolutions,
                           done.total);
}

}  // namespace

int run_convert_weights(const ConvertWeightsArguments& arguments) {
  namespace fs = std::filesystem;
  const fs::path in = arguments.input, out = arguments.output;
  const bool to_darknet = out.extension() == ".weights";
  if (fs::exists(out) && !arguments.force) {
    throw Error("the file is there already", "choose another name, or give --force",
                Error::Kind::kUsage)
        .add_where(out.string());
  }
  if (to_darknet && !arguments.cfg.empty()) {
    throw Error("--cfg describes a .weights input, but OUT is one", "leave --cfg out",
                Error::Kind::kUsage);
  }
  const auto cfg = arguments.cfg.empty() ? std::optional<fs::path>() : fs::path(arguments.cfg);
  const DarknetConversion done =
      to_darknet ? convert_to_darknet(in, out) : convert_from_darknet(in, out, cfg);
  fmt::print("{}, {} numbers{}: {}\n", convolutions(done), done.floats,
             done.num_classes > 0 ? fmt::format(", {} classes", done.num_classes) : "",
             out.string());
  return 0;
}

}  // namespace detforge
