#pragma once

#include <string>
#include <vector>

namespace opgen::aten {

/// `check --functions F --derivatives D [--json | --summary]`: `words` are what follows `check`. Exit code 1 with problems, which
/// are on stderr; what is not typed is no problem.
int check_command(const std::vector<std::string>& words);

/// `convert --functions F --derivatives D --layer L`: entries of ours for the ops that L chooses, on stdout.
int convert_command(const std::vector<std::string>& words);

}  // namespace opgen::aten
