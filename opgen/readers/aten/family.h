#pragma once

#include <string>
#include <vector>

#include "opgen/readers/aten/function.h"
#include "opgen/readers/aten/record.h"

namespace opgen::aten {

/// A function on lists: _foreach_add.
bool is_foreach(const Function& function);

/// One operation in all its variants. One record serves the functional and the in-place one; `out` is never differentiable.
struct Family {
  std::vector<const Function*> functional, in_place, out, mutable_args;
  std::vector<const Function*> foreach;  // on lists, element by element
  std::vector<std::string> generated;    // variants that have no entry of their own

  std::vector<const Function*> all() const;
};

struct Families {
  std::vector<Family> all;
  std::unordered_map<const Function*, size_t> of;
  std::unordered_map<const Function*, const Function*> reference;  // of a foreach function: the one for an element

  const Family& family(const Function& function) const { return all[of.at(&function)]; }
};

/// Joins functions whose signatures are the same but for what they write; foreach functions join the family of their elements'
/// op.
Families join_families(const Functions& functions);

/// The record that serves each function: its own; else, for in-place ones, that of the functional one; else, for foreach ones,
/// that of their element's op. Null if there is none.
struct Served {
  const Record* record = nullptr;
  enum class How { own, functional, element } how = How::own;
};
std::unordered_map<const Function*, Served> served_by(const Families& families, const Functions& functions,
                                                      const Records& records);

}  // namespace opgen::aten
