#include "detforge/export/load_weights.h"

#include <set>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/export/darknet_weights.h"
#include "detforge/export/weights_source.h"
#include "detforge/serialize/torch_file.h"

namespace detforge {
namespace {

constexpr std::size_t kNamesShown = 12;

struct ModelTensor {
  std::string name;
  Tensor tensor;
};

std::vector<ModelTensor> tensors_of(const torch::nn::Module& model) {
  std::vector<ModelTensor> tensors;
  for (const auto& parameter : model.named_parameters()) {
    tensors.push_back({parameter.key(), parameter.value()});
  }
  for (const auto& buffer : model.named_buffers()) {
    tensors.push_back({buffer.key(), buffer.value()});
  }
  return tensors;
}

bool is_running_statistic(std::string_view name) {
  return name.ends_with("running_mean") || name.ends_with("running_var");
}

std::string shape_of(const Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

/// What of the model is the pre-trained part: bottom_up where there is an FPN, else all of the
/// backbone.
std::string backbone_prefix(const std::vector<ModelTensor>& tensors) {
  for (const char* prefix : {"backbone.bottom_up.", "backbone."}) {
    for (const ModelTensor& tensor : tensors) {
      if (tensor.name.rfind(prefix, 0) == 0) {
        return prefix;
      }
    }
  }
  return {};
}

void check_finite(const std::string& name, const Tensor& tensor) {
  const bool finite =
      !tensor.is_floating_point() || std::isfinite(tensor.to(at::kDouble).sum().item<double>());
  DETFORGE_CHECK(finite, fmt::format("{} in the file is not finite", name),
                 "use an earlier checkpoint of that run");
}

/// A model's tensor and the one of the file that fills it.
struct Copy {
  Tensor to, from;
};

class Plan {
 public:
  Plan(std::vector<ModelTensor> model, const WeightsSource& source)
      : model_(std::move(model)), source_(source) {
    for (const FileTensor& tensor : source_.tensors) {
      if (tensor.model_name.empty()) {
        continue;
      }
      const auto [other, is_new] = by_name_.emplace(tensor.model_name, &tensor);
      DETFORGE_CHECK(is_new,
                     fmt::format("{} and {} of the file are both the model's {}",
                                 other->second->file_name, tensor.file_name, tensor.model_name),
                     "keep one of the two in the file");
    }
  }

  LoadReport make_report() {
    LoadReport report;
    report.layout = describe(source_.layout);
    report.ignored = source_.ignored;
    report.preprocessing = source_.preprocessing;
    report.class_names = source_.class_names;
    report.averaged = source_.averaged;
    std::set<std::string> used;
    for (const ModelTensor& tensor : model_) {
      if (place(tensor, report)) {
        used.insert(by_name_.at(tensor.name)->file_name);
      }
    }
    for (const FileTensor& tensor : source_.tensors) {
      if (used.count(tensor.file_name) == 0) {
        report.unexpected.push_back(tensor.file_name);
      }
    }
    report.backbone_fraction = backbone_fraction(report);
    return report;
  }

  void execute() const {
    const torch::NoGradGuard no_grad;
    for (const Copy& copy : copies_) {
      copy.to.copy_(copy.from);
    }
  }

 private:
  /// Returns whether the file has this tensor, of whatever shape.
  bool place(const ModelTensor& tensor, LoadReport& report) {
    const auto found = by_name_.find(tensor.name);
    if (found == by_name_.end()) {
      if (!carries_no_weights(tensor.name)) {
        report.missing.push_back(tensor.name);
      }
      return false;
    }
    const Tensor& from = found->second->tensor;
    if (from.sizes() == tensor.tensor.sizes()) {
      check_finite(tensor.name, from);
      report.loaded.push_back(tensor.name);
      copies_.push_back({tensor.tensor, from});
    } else {
      report.reinitialised.push_back(fmt::format("{} (model {}, file {})", tensor.name,
                                                 shape_of(tensor.tensor), shape_of(from)));
    }
    return true;
  }

  /// Caffe2's files have no running statistics (they are folded into scale and bias), so these do
  /// not count.
  bool counts_for_backbone(const std::string& name, const std::string& prefix) const {
    return name.rfind(prefix, 0) == 0 && !carries_no_weights(name) &&
           !(source_.layout == NameLayout::kCaffe2ResNet && is_running_statistic(name));
  }

  double backbone_fraction(const LoadReport& report) const {
    const std::string prefix = backbone_prefix(model_);
    const auto count = [&](const auto& names) {
      return std::count_if(names.begin(), names.end(),
                           [&](const auto& name) { return counts_for_backbone(name, prefix); });
    };
    std::vector<std::string> all;
    for (const ModelTensor& tensor : model_) {
      all.push_back(tensor.name);
    }
    const auto wanted = prefix.empty() ? 0 : count(all);
    return wanted == 0 ? 1.0
                       : static_cast<double>(count(report.loaded)) / static_cast<double>(wanted);
  }

  std::vector<ModelTensor> model_;
  const WeightsSource& source_;
  std::map<std::string, const FileTensor*> by_name_;
  std::vector<Copy> copies_;
};

void append_names(std::string& text, const char* title, const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  text += fmt::format("{}:\n", title);
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
    text += fmt::format("  {}\n", names[i]);
  }
  if (names.size() > kNamesShown) {
    text += fmt::format("  ... and {} more\n", names.size() - kNamesShown);
  }
}

void check(const LoadReport& report, const LoadOptions& options) {
  DETFORGE_CHECK(!report.loaded.empty(),
                 fmt::format("no tensor of the file fits the model ({} names)\n{}", report.layout,
                             report.table()),
                 "give weights of this architecture");
  DETFORGE_CHECK(
      report.backbone_fraction >= options.min_backbone_fraction,
      fmt::format("only {:.1f} % of the backbone is in the file, {:.1f} % are wanted\n{}",
                  100 * report.backbone_fraction, 100 * options.min_backbone_fraction,
                  report.table()),
      "give weights of this backbone (depth, norm), or allow a partly initialised one");
}

}  // namespace

std::string LoadReport::table() const {
  std::string text =
      fmt::format("names: {}{}, backbone {:.1f} % loaded\n", layout,
                  averaged ? ", averaged weights (ema)" : "", 100 * backbone_fraction);
  text += fmt::format(
      "{:>8} loaded\n{:>8} re-initialised\n{:>8} missing\n{:>8} unexpected\n{:>8} ignored\n",
      loaded.size(), reinitialised.size(), missing.size(), unexpected.size(), ignored.size());
  append_names(text, "re-initialised (other shape)", reinitialised);
  append_names(text, "missing (kept as initialised)", missing);
  append_names(text, "unexpected (only in the file)", unexpected);
  return text;
}

LoadReport load_weights(torch::nn::Module& model,
                        const Value& content,
                        const std::string& path,
                        const LoadOptions& options) {
  try {
    std::vector<ModelTensor> tensors = tensors_of(model);
    std::vector<std::string> names;
    for (const ModelTensor& tensor : tensors) {
      names.push_back(tensor.name);
    }
    const WeightsSource source = holds_darknet_file(content)
                                     ? interpret_darknet(to_darknet_file(content), model)
                                     : interpret_weights(content, names);
    Plan plan(std::move(tensors), source);
    LoadReport report = plan.make_report();
    check(report, options);
    plan.execute();
    return report;
  } catch (Error& error) {
    error.add_where(path);
    throw;
  }
}

LoadReport load_weights(torch::nn::Module& model,
                        const std::filesystem::path& file,
                        const LoadOptions& options) {
  return load_weights(model, read_torch_file(file), file.string(), options);
}

void save_weights(const std::filesystem::path& file, const torch::nn::Module& model) {
  Value state = Value::dict();
  for (const ModelTensor& tensor : tensors_of(model)) {
    state.set(tensor.name, tensor.tensor);
  }
  write_torch_file(file, Value::dict().set("model", std::move(state)));
}

}  // namespace detforge
