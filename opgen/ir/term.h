#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "opgen/schema/schema.h"

namespace opgen {

struct Op;
struct Helper;
struct Term;
using TermPtr = std::shared_ptr<const Term>;

/// What a formula reads, and how much of it.
struct Symbol {
  enum class What {
    argument,   // number `index` of the signature
    result,     // number `index`; in forward mode its primal
    gradient,   // the gradient that arrived for result `index`
    gradients,  // those of a result that is a list
    primal,     // of argument `index`, in forward mode
    tangent,    // of argument `index`
    let,        // number `index` of the formula
    element,    // the number of the list element that the formula is for
    shared,     // call number `index` that several formulas make, in a node
  };
  enum class How { whole, sizes, dtype, device, defined, element };  // element: the one of that number, of a list

  What what = What::argument;
  size_t index = 0;
  std::string name;  // as generated code has it
  How how = How::whole;
  std::string path = {};  // as formulas write it, where that differs: x.q

  bool is(What wanted, size_t at) const { return what == wanted && index == at; }
  bool same_thing(const Symbol& other) const { return what == other.what && index == other.index; }
};

/// What can be asked of a value without an op.
enum class Property {
  sizes,
  strides,
  size,  // of the dim that is the second argument
  dim,
  numel,
  dtype,
  device,
  defined,
  is_contiguous,
  length,     // of a list
  has_value,  // of what is optional
  value,
  components,  // of a Ragged
  rows,
};

enum class Operator {
  none,
  negate,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  modulo,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
};

/// A part of a formula: every name is resolved, every overload chosen, arguments stand in the order of the signature, and where
/// a value of one type serves as another a conversion says so. Immutable; parts are shared.
struct Term {
  enum class Kind {
    literal,     // text, as formulas write it: 2.5e-3, 'sum', true, none, inf, float32
    read,        // symbol
    op,          // a call of `op`; as an operator between tensors if `operation` is not none
    helper,      // a call of `helper`, a function on sizes and dtypes
    zeros,       // a tensor of zeros, of (sizes, dtype, device)
    operation,   // `operation` on numbers, bools and other plain values
    property,    // `property` of the first argument
    conversion,  // of the argument into `type`
    condition,   // (condition, value, other value), of which one is evaluated
    tuple,
    list,
    record,       // of its fields
    index,        // (list, number), or element `position` of a tuple or record
    wants,        // whether the gradient of the input `symbol` is wanted
    has_tangent,  // whether the input `symbol` has a tangent
  };

  Kind kind = Kind::literal;
  Type type;
  std::vector<TermPtr> arguments;
  Position at;
  std::string text;
  Symbol symbol;
  const Op* op = nullptr;
  const Helper* helper = nullptr;
  Operator operation = Operator::none;
  Property property = Property::sizes;
  size_t position = 0;

  bool is(Kind wanted) const { return kind == wanted; }
  bool reads(Symbol::What what) const { return kind == Kind::read && symbol.what == what; }
};
using TermKind = Term::Kind;

/// `let a = x, b = y in value`; lets are numbered in this order.
struct Let {
  std::string name;
  TermPtr value;
};
struct Block {
  std::vector<Let> lets;
  TermPtr value;
};

/// The symbol of an operator: "+".
const char* spelling(Operator operation);
const char* spelling(Property property);
const char* part_name(Symbol::How how);

/// The same computation, whatever of.
bool same_apart_from_arguments(const Term& a, const Term& b);

/// Sees a term and all its parts, or those of the lets and of the value.
void visit(const Term& term, const std::function<void(const Term&)>& see);
void visit(const Block& body, const std::function<void(const Term&)>& see);

/// What a term is through conversions and lets.
const Term& without_lets(const Term& term, const Block& formula);

}  // namespace opgen
