#include "tools/deckle/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace deckle::cli {

std::string bash_completion(const std::map<std::string, std::vector<std::string>>& words_of_commands) {
  std::string commands, cases;
  for (const auto& [command, words] : words_of_commands) {
    commands += command + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command, fmt::join(words, " "));
  }
  return fmt::format(R"(_deckle() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=""
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{}--help" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  case $word in
    -*) ;;
    *) COMPREPLY+=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _deckle deckle
)",
                     commands, cases);
}

}  // namespace deckle::cli
