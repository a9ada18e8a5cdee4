#include "tools/deckle/output.h"

#include <cerrno>
#include <cstring>

#include "deckle/base/check.h"

namespace deckle::cli {

namespace {

int first_error = 0;  // errno of the first failure

}  // namespace

void put(std::FILE* stream, std::string_view text) {
  const bool arrived = std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  if (!arrived && first_error == 0) first_error = errno;
}

bool output_lost() { return first_error != 0; }

void check_output() {
  if (output_lost()) fail(ErrorKind::io, "cannot write the output: {}", std::strerror(first_error));
}

}  // namespace deckle::cli
