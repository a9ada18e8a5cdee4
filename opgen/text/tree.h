#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "opgen/text/source.h"

namespace opgen {

struct Branch;

/// What a YAML file holds at one place: a text, a list, a map, nothing (null), or, where a field is absent, nothing at all.
/// Copies share what they show. Only yaml_file.cpp makes them.
class Tree {
 public:
  enum class Kind { absent, null, scalar, sequence, map };

  Tree() = default;
  static Tree of(Kind kind, std::string scalar, std::vector<Branch> branches, Position at);

  Kind kind() const;
  bool present() const { return kind() != Kind::absent; }
  bool given() const { return present() && !is_null(); }
  bool is_null() const { return kind() == Kind::null; }
  bool is_scalar() const { return kind() == Kind::scalar; }
  bool is_list() const { return kind() == Kind::sequence; }
  bool is_map() const { return kind() == Kind::map; }
  explicit operator bool() const { return present(); }

  const std::string& scalar() const;  // "" of what is no scalar
  const Position& at() const;
  size_t size() const;
  /// The value of a key; absent if there is none.
  Tree operator[](const std::string& key) const;
  Tree operator[](const char* key) const { return (*this)[std::string(key)]; }
  /// The elements of a list, or the pairs of a map in their order.
  const std::vector<Branch>& branches() const;
  Tree element(size_t index) const;

  [[noreturn]] void fail(const std::string& message) const { throw Problem(at(), message); }

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

/// An element of a list (without a key), or a pair of a map.
struct Branch {
  Tree key;
  Tree value;
};

}  // namespace opgen
