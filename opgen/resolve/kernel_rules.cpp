#include "opgen/resolve/kernel_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "opgen/text/strings.h"

namespace opgen {

void check_kernels(const Entry& entry, const std::string& root) {
  if (!entry.kernels.empty() && !entry.kernels.count("cpu"))
    throw Problem(entry.body_at,
                  fmt::format("'{}' has no kernel for the cpu, where its tests run: add 'cpu: family/stem'", entry.name()));
  for (const auto& [device, kernel] : entry.kernels) {
    if (device == "cuda" && !entry.home.is_deckle() && !entry.external)
      throw Problem(kernel.at,
                    fmt::format("kernels of libraries beside Deckle are for the CPU, and 'cuda' of '{}' would never be "
                                "called: leave it out",
                                entry.name()));
    if (root.empty() || entry.external) continue;
    const std::string file = fmt::format("deckle/kernels/{}/{}.{}", device, kernel.file, device == "cuda" ? "cu" : "cpp");
    // Other libraries have their kernels beside their entries, or anywhere below their root.
    const std::filesystem::path other = kernel.file + (device == "cuda" ? ".cu" : ".cpp");
    const std::filesystem::path folder_of_entry = (root / std::filesystem::path(entry.at.file.text())).parent_path();
    if (std::filesystem::exists(root / other) || std::filesystem::exists(folder_of_entry / other)) continue;
    if (!entry.home.plain)
      throw Problem(kernel.at,
                    fmt::format("the kernel file {} is neither beside the entries nor in {}", other.generic_string(), root));
    if (std::filesystem::exists(root + "/" + file)) continue;
    std::vector<std::string> there;
    const std::filesystem::path folder = std::filesystem::path(root) / "deckle/kernels" / device;
    if (std::filesystem::exists(folder)) {
      for (const auto& found : std::filesystem::recursive_directory_iterator(folder)) {
        if (found.path().extension() == ".cpp" || found.path().extension() == ".cu")
          there.push_back(found.path().lexically_relative(folder).replace_extension().generic_string());
      }
    }
    throw Problem(kernel.at, fmt::format("the kernel file {} does not exist{}", file, did_you_mean(kernel.file, there)));
  }
}

void check_orphans(const Library& library, const std::string& root, Problems& problems) {
  namespace fs = std::filesystem;
  using namespace std::string_view_literals;
  std::set<std::string> claimed;
  for (const auto& entry : library.entries) {
    for (const auto& [device, kernel] : entry->kernels) claimed.insert(device + "/" + kernel.file);
  }
  std::ifstream pending(root + "/ops/pending_kernels.txt");
  for (std::string line; std::getline(pending, line);) {
    if (!line.empty() && line[0] != '#') claimed.insert(line.substr(0, line.find(':')));
  }
  const fs::path kernels = fs::path(root) / "deckle/kernels";
  std::vector<std::string> orphans;
  for (const auto& [device, extension] : {std::pair("cpu", ".cpp"sv), std::pair("cuda", ".cu"sv)}) {
    if (!fs::exists(kernels / device)) continue;
    for (const auto& file : fs::recursive_directory_iterator(kernels / device)) {
      if (file.path().extension() != extension || file.path().parent_path().filename() == "simd") continue;
      if (extension == ".cpp" && fs::exists(fs::path(file.path()).replace_extension(".h"))) continue;
      const std::string name = file.path().lexically_relative(kernels).generic_string();
      if (!claimed.count(fs::path(name).replace_extension().generic_string())) orphans.push_back(name);
    }
  }
  std::sort(orphans.begin(), orphans.end());
  for (const std::string& orphan : orphans)
    problems.push_back(fmt::format(
        "deckle/kernels/{}:1:1: no op claims this kernel: write its entry, or name it in ops/pending_kernels.txt with the reason",
        orphan));
}

std::vector<std::string> watched_paths(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths = {root + "/ops/pending_kernels.txt"};
  const fs::path kernels = fs::path(root) / "deckle/kernels";
  for (const char* device : {"cpu", "cuda"}) {
    if (!fs::exists(kernels / device)) continue;
    paths.push_back((kernels / device).generic_string());
    for (const auto& found : fs::recursive_directory_iterator(kernels / device)) {
      if (found.is_directory()) paths.push_back(found.path().generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace opgen
