#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace detforge {

/// Whether a file name ends like those of the formats that image_io.h reads, in any case.
bool is_image_name(const std::filesystem::path& path);

/// The images in a folder and those below it, sorted by path; hidden files and folders are left
/// out. Throws Error if it is no folder.
std::vector<std::filesystem::path> images_below(const std::filesystem::path& folder);

/// The folder that all paths lie in, as far down as possible; empty if there is none, as between
/// relative and absolute paths.
std::filesystem::path common_folder(const std::vector<std::filesystem::path>& paths);

/// Finds files by names that were written on another machine. Caches what folders hold: not
/// thread-safe, and for files that stay where they are.
class FileFinder {
 public:
  /// `folders`: where relative names are looked for, in this order.
  explicit FileFinder(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  struct Found {
    std::filesystem::path path;
    bool as_written = true;  ///< false: only after repair
  };
  /// The file of that name. If there is none: with / for \ ("data\obj\a.jpg"), then without regard
  /// to case if one file fits, then only the last parts of the name, as many as possible (for
  /// "C:\Users\me\data\obj\a.jpg").
  std::optional<Found> find(std::string_view written);

  /// The image file in `folder` (one of the finder's, or below) called `stem` with any image
  /// extension; the first by name if there are several.
  std::optional<std::filesystem::path> find_image(const std::filesystem::path& folder,
                                                  const std::string& stem);

 private:
  struct Listing {
    std::multimap<std::string, std::string> by_lower_name;  ///< file names
    std::map<std::string, std::string> image_by_stem;
  };
  const Listing& listing(const std::filesystem::path& folder);
  std::optional<std::filesystem::path> find_in_any_case(const std::filesystem::path& path);

  std::vector<std::filesystem::path> folders_;
  std::map<std::filesystem::path, Listing> listings_;
};

/// A source that may name its image set: PATH, or PATH:SPLIT if no file is called that as a whole.
struct SplitSource {
  std::filesystem::path path;
  std::string split;
};
SplitSource parse_source(const std::string& source, const std::string& default_split);

}  // namespace detforge
