#pragma once

#include <map>
#include <string>
#include <vector>

namespace deckle::cli {

/// A script for bash that completes commands, and the words (options, subcommands) of each; file names elsewhere.
std::string bash_completion(const std::map<std::string, std::vector<std::string>>& words_of_commands);

}  // namespace deckle::cli
