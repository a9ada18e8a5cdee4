#pragma once

#include <string>

namespace opgen {

/// The library that an op, a type, a scalar function or a helper belongs to, as far as printers and messages know it.
struct Home {
  std::string space = "deckle";  // its C++ namespace
  bool plain = true;             // Deckle itself is compiled: its names stand alone

  bool is_deckle() const { return space == "deckle"; }
  /// In front of the library's names: "acme::", or nothing within Deckle.
  std::string prefix() const { return plain ? "" : space + "::"; }
};

}  // namespace opgen
