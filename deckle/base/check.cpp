#include "deckle/base/check.h"

#include <fmt/format.h>

namespace deckle::detail {

void fail(ErrorKind kind, std::string_view argument, fmt::string_view text, fmt::format_args values) {
  throw Error(kind, std::string(argument), fmt::vformat(text, values));
}

}  // namespace deckle::detail
