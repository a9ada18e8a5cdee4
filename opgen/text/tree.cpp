#include "opgen/text/tree.h"

namespace opgen {

struct Tree::Data {
  Kind kind;
  std::string scalar;
  std::vector<Branch> branches;
  Position at;
};

Tree Tree::of(Kind kind, std::string scalar, std::vector<Branch> branches, Position at) {
  Tree tree;
  tree.data_ = std::make_shared<const Data>(Data{kind, std::move(scalar), std::move(branches), std::move(at)});
  return tree;
}

Tree::Kind Tree::kind() const { return data_ ? data_->kind : Kind::absent; }

const std::string& Tree::scalar() const {
  static const std::string none;
  return data_ ? data_->scalar : none;
}

const Position& Tree::at() const {
  static const Position none;
  return data_ ? data_->at : none;
}

const std::vector<Branch>& Tree::branches() const {
  static const std::vector<Branch> none;
  return data_ ? data_->branches : none;
}

size_t Tree::size() const { return branches().size(); }

Tree Tree::operator[](const std::string& key) const {
  if (!is_map()) return {};
  for (const Branch& branch : branches()) {
    if (branch.key.is_scalar() && branch.key.scalar() == key) return branch.value;
  }
  return {};
}

Tree Tree::element(size_t index) const { return branches()[index].value; }

}  // namespace opgen
