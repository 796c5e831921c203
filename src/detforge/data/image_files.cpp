#include "detforge/data/image_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "detforge/core/error.h"
#include "detforge/data/text_file.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

}  // namespace

bool is_image_name(const fs::path& path) {
  constexpr std::array<std::string_view, 10> kExtensions = {
      ".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm"};
  const std::string extension = lower_case(path.extension().string());
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  constexpr auto kOptions = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator at(folder, kOptions, error), end; at != end;
       at.increment(error)) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (is_image_name(at->path()) && is_file(at->path())) {
      paths.push_back(at->path());
    }
  }
  if (error) {
    throw Error("cannot list the folder: " + error.message(), "check the path")
        .add_where(folder.string())
        .at(__FILE__, __LINE__);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

fs::path common_folder(const std::vector<fs::path>& paths) {
  std::optional<fs::path> common;
  for (const fs::path& path : paths) {
    const fs::path folder = path.parent_path();
    if (!common) {
      common = folder;
    }
    if (*common == folder) {
      continue;
    }
    const auto [end, ignored] =
        std::mismatch(common->begin(), common->end(), folder.begin(), folder.end());
    fs::path shared;
    for (auto part = common->begin(); part != end; ++part) {
      shared /= *part;
    }
    common = std::move(shared);
  }
  return common.value_or(fs::path());
}

std::optional<FileFinder::Found> FileFinder::find(std::string_view written) {
  const fs::path name(written);
  for (const fs::path& folder : folders_) {
    if (is_file(folder / name)) {
      return Found{.path = (folder / name).lexically_normal()};
    }
  }
  std::string slashes(written);
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  const fs::path whole(slashes);
  // The whole name, then always one part less in front.
  for (auto first = whole.begin(); first != whole.end(); ++first) {
    fs::path rest;
    for (auto part = first; part != whole.end(); ++part) {
      rest /= *part;
    }
    for (const fs::path& folder : folders_) {
      if (auto path = find_in_any_case((folder / rest).lexically_normal())) {
        return Found{.path = std::move(*path), .as_written = false};
      }
    }
  }
  return std::nullopt;
}

std::optional<fs::path> FileFinder::find_in_any_case(const fs::path& path) {
  if (is_file(path)) {
    return path;
  }
  const auto& names = listing(path.parent_path()).by_lower_name;
  const auto [begin, end] = names.equal_range(lower_case(path.filename().string()));
  if (std::distance(begin, end) != 1) {
    return std::nullopt;
  }
  return path.parent_path() / begin->second;
}

std::optional<fs::path> FileFinder::find_image(const fs::path& folder, const std::string& stem) {
  const auto& images = listing(folder).image_by_stem;
  const auto at = images.find(stem);
  return at == images.end() ? std::nullopt : std::optional(folder / at->second);
}

const FileFinder::Listing& FileFinder::listing(const fs::path& folder) {
  const auto [at, is_new] = listings_.try_emplace(folder);
  if (is_new) {
    std::error_code ignored;  // a folder that cannot be listed holds nothing
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
      if (entry.is_regular_file(ignored)) {
        names.push_back(entry.path().filename().string());
      }
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      at->second.by_lower_name.emplace(lower_case(name), name);
      if (is_image_name(name)) {
        at->second.image_by_stem.emplace(fs::path(name).stem().string(), name);
      }
    }
  }
  return at->second;
}

SplitSource parse_source(const std::string& source, const std::string& default_split) {
  const std::size_t colon = source.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || colon == 0 || colon + 1 == source.size() ||
      source.find('/', colon) != std::string::npos || fs::exists(source, ignored)) {
    return {source, default_split};
  }
  return {source.substr(0, colon), source.substr(colon + 1)};
}

}  // namespace detforge
