#include <fmt/format.h>

#include "detforge/cli/commands.h"
#include "detforge/data/shapes.h"

namespace detforge {

int run_make_shapes(const MakeShapesArguments& arguments) {
  const ShapesReport report = make_shapes({.output = arguments.output,
                                           .train_images = arguments.train_images,
                                           .val_images = arguments.val_images,
                                           .size = {arguments.size.height, arguments.size.width},
                                           .seed = arguments.seed,
                                           .rle = arguments.rle});
  if (report.already_there) {
    fmt::print("{} is complete already: {} pictures\n", arguments.output, report.images);
  } else {
    fmt::print("{}: {} pictures with {} objects\n", arguments.output, report.images,
               report.objects);
  }
  return 0;
}

}  // namespace detforge
