#pragma once

#include <set>
#include <string>

#include "opgen/model/entry.h"

namespace opgen {

/// The C++ of one op, below its head comment.
struct OpSource {
  std::string raw;               // for namespace deckle::raw
  std::string row;               // the dispatch row, for an unnamed namespace
  std::string node;              // the autograd node, for an unnamed namespace
  std::string functions;         // public functions, for namespace deckle
  std::set<const Entry*> calls;  // ops that it calls
};

OpSource emit_op(const Entry& entry, const Library& library);

/// Whether the op has raw functions (below autograd) of its own.
bool has_raw(const Entry& entry);

/// Signature of a variant: `Tensor silu(const Tensor& self)`.
enum class Variant { functional, inplace, out };
std::string signature(const Entry& entry, Variant variant, bool with_defaults);
std::string variant_name(const Entry& entry, Variant variant);
/// Below autograd: variants write into `out` and return nothing.
std::string raw_signature(const Entry& entry, bool out, bool with_defaults);
std::string native_signature(const Entry& entry, bool with_defaults);

/// Parameters of the op's CPU kernel.
std::vector<std::string> kernel_parameters(const Entry& entry);

}  // namespace opgen
