#pragma once

#include <yaml-cpp/yaml.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/schema/schema.h"

namespace opgen {

/// What `derivative:` says about some inputs, or, in forward mode, about some results.
struct Rule {
  enum class Kind { formula, non_differentiable, auto_linear, auto_element_wise };
  std::vector<std::string> keys;
  Kind kind = Kind::formula;
  Formula formula;
  Position at;
};

/// Whether the argument names dims.
bool is_dim(const Argument& argument);

/// A contribution to the tangent of the result from one input of a pointwise op: only evaluated if that has a tangent.
struct TangentTerm {
  std::string input;
  ExprPtr formula;
};

struct Check {
  ExprPtr condition;
  Text says;
};

struct Kernel {
  std::string file;  // reduce/softmax
  std::string function;
  Position at;
};

/// Dims of nested tensors, in their order.
inline constexpr std::array<const char*, 3> kDimKinds = {"batch", "ragged", "regular"};

/// What an overload that is written by hand does over one kind of dim, or why it refuses.
struct DimRule {
  std::string text;
  bool refused = false;
};

/// `nested:` as written. values: element by element; rows: over the last dim, which is to be regular; whole: over all elements;
/// segment: over the dims that arguments name; cpp: written by hand in deckle/nested.
struct NestedRule {
  enum class Kind { absent, values, rows, whole, segment, cpp, error };
  Kind kind = Kind::absent;
  std::string segment;                            // the op that serves the batch and the ragged dims
  std::string error;                              // why there is no meaning
  std::array<DimRule, 3> over;                    // of `cpp`
  YAML::Node samples{YAML::NodeType::Undefined};  // of `cpp`: calls of the dense op on one component
  bool rows = false;                              // the last dim is to be regular: of `rows`, and where `cpp` says so
  bool dense = false;                             // the results are dense
  std::string inserts;                            // of `cpp`: the argument that says where a new dim goes
  std::vector<std::string> on;                    // the arguments that are nested; empty: the first tensor
  std::vector<std::vector<std::string>> choices;  // of `cpp`: one overload for each set of nested arguments
  Position at;
};

enum class Dtypes { floating, numeric, all };

/// One op: an entry of ops/*.yaml, or one derived from such an entry (a fused derivative).
struct Entry {
  enum class Body { pointwise, kernel, native, composite, composite_cpp };

  Position at;
  std::string stem;  // of the entry file: pointwise
  Schema schema;
  std::string doc;
  Body body = Body::native;
  Position body_at;
  ExprPtr pointwise;                      // body pointwise
  Formula composite;                      // body composite
  std::map<std::string, Kernel> kernels;  // body kernel: by device
  std::vector<ExprPtr> result_rules;      // one per result
  std::vector<Check> checks;
  std::map<std::string, ExprPtr> wraps;  // dim argument -> number of dims
  bool wrap_dims = true;
  bool strided_all = false;
  std::vector<std::string> strided;  // inputs that the kernel takes with any strides
  Dtypes dtypes = Dtypes::floating;
  bool inplace = false;
  bool out = false;

  bool derivative_given = false;
  bool derivative_auto = false;
  bool non_differentiable = false;
  Position derivative_at;
  std::vector<Rule> reverse;
  std::vector<Rule> forward;
  std::vector<TangentTerm> tangent_terms;  // instead of `forward`, for derived rules
  std::vector<std::string> linear_in;      // inputs that a fused derivative is linear in

  NestedRule nested;
  YAML::Node samples;  // a set's name or a list; undefined for derived entries
  Position samples_at;
  bool test_gradients = true;
  bool test_strided = true;

  bool external = false;  // known to formulas, emitted elsewhere
  bool derived = false;   // a fused derivative: no documentation, no tests of its own
  int order = 0;          // of differentiation, for derived entries

  const std::string& name() const { return schema.name; }
  std::string unique_name() const { return schema.unique_name(); }
  bool is_view() const;                          // a result aliases an argument that is not written
  bool writes_argument() const;                  // Tensor(a!) self
  std::vector<const Argument*> tensors() const;  // Tensor, Tensor? and Tensor[] arguments
  /// The name under which formulas know result `index`: its own unless an argument has it; resultN serves too.
  std::string result_name(size_t index) const;
  const Rule* reverse_rule(const std::string& input) const;
};

/// A scalar function of pointwise expressions.
struct ScalarFunction {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> derivatives;  // per parameter; null: not differentiable
  std::vector<ExprPtr> vanishes;
  bool integer = false;
  bool boolean = false;  // isnan and its like
};

/// A host function on sizes and dtypes.
struct Helper {
  Schema schema;
};

/// Everything that was read: ops by name in the order of the files, functions and sample sets.
struct Library {
  std::vector<std::shared_ptr<Entry>> entries;
  std::map<std::string, ScalarFunction> functions;
  std::map<std::string, std::vector<Helper>> helpers;
  std::map<std::string, YAML::Node> sample_sets;

  std::vector<const Entry*> named(const std::string& name) const;
  bool has(const std::string& name) const { return !named(name).empty(); }
  std::vector<std::string> op_names() const;
};

}  // namespace opgen
