// A Pascal VOC annotation of any bytes, and what a dataset makes of it.

#include "detforge/data/tables_builder.h"
#include "detforge/data/voc_xml.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

/// The objects as load_voc() adds them, under a policy that refuses nothing that it need not.
void build(const VocAnnotation& annotation) {
  CheckPolicy policy;
  policy.set(CheckKind::kBoxNegativeSize, CheckAction::kDrop);
  CheckReport report(policy);
  const CocoLoadOptions options;
  TablesBuilder builder(options, report, "object");
  builder.add_category("any");
  builder.add_image("a.jpg", annotation.size, "a.xml");
  std::int64_t number = 0;
  for (const VocObject& object : annotation.objects) {
    const auto [x1, y1, x2, y2] = object.corners;
    builder.add_object({.category_id = 1,
                        .box_xywh = {x1 - 1, y1 - 1, x2 - x1 + 1, y2 - y1 + 1},
                        .is_crowd = object.is_difficult,
                        .number = ++number});
  }
  const auto store = builder.finish();
  for (const CocoAnnotation& a : store->annotations()) {
    if (a.usable) {
      const Box box = clipped_box(a.box_xywh, annotation.size);
      require(box.width() > 0 && box.height() > 0, "the box of a usable object is a box");
    }
  }
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  accepts([&] {
    const VocAnnotation annotation =
        parse_voc_xml(std::string_view(reinterpret_cast<const char*>(data), size));
    for (const VocObject& object : annotation.objects) {
      require(object.numbers == 4 || !object.problem.empty(), "a missing corner is explained");
    }
    build(annotation);
  });
  return 0;
}
