#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

/// Parsers of untrusted input, each as a function of arbitrary bytes. It returns whether the input was read: if not, it was
/// refused with an Error. Anything else (another exception, a crash, more than a second) is a bug. Broken: a parsed value
/// violates its contract.
namespace deckle::fuzz {

struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Broken(what);
}

bool opgen_schema(std::string_view input);
bool opgen_formula(std::string_view input);
bool opgen_entries(std::string_view input);
bool opgen_aten(std::string_view input);
bool safetensors(std::string_view input);
bool checkpoint(std::string_view input);
bool text(std::string_view input);
bool jsonl(std::string_view input);
bool utf8(std::string_view input);
bool mask(std::string_view input);
bool ragged(std::string_view input);

struct Target {
  const char* name;
  bool (*run)(std::string_view input);
};
inline constexpr std::array kTargets = {Target{"opgen_schema", opgen_schema},
                                        Target{"opgen_formula", opgen_formula},
                                        Target{"opgen_entries", opgen_entries},
                                        Target{"opgen_aten", opgen_aten},
                                        Target{"safetensors", safetensors},
                                        Target{"checkpoint", checkpoint},
                                        Target{"text", text},
                                        Target{"jsonl", jsonl},
                                        Target{"utf8", utf8},
                                        Target{"mask", mask},
                                        Target{"ragged", ragged}};

}  // namespace deckle::fuzz
