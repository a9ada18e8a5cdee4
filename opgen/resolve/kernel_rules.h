#pragma once

#include <string>
#include <vector>

#include "opgen/model/entry.h"

namespace opgen {

/// Kernel files that an entry claims exist below `root` ("": not checked), one for the cpu among them.
void check_kernels(const Entry& entry, const std::string& root);

/// Every kernel file below `root` is claimed by an op, or stands in ops/pending_kernels.txt with the reason. A .cpp with a
/// header of its own is a part of kernels, not one.
void check_orphans(const Library& library, const std::string& root, Problems& problems);

/// What check_orphans looks at besides the entries: folders of kernels, whose time changes with the files in them, and the list
/// of kernels without an op.
std::vector<std::string> watched_paths(const std::string& root);

}  // namespace opgen
