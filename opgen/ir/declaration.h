#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/schema/schema.h"

namespace opgen {

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
  bool rows = false;                              // the last dim is to be regular: of `rows`, and where `cpp` says so
  std::string zeros_need;                         // of `rows`: the number without which rows of zeros have no finite derivatives
  bool dense = false;                             // the results are dense
  std::string inserts;                            // of `cpp`: the argument that says where a new dim goes
  std::vector<std::string> on;                    // the arguments that are nested; empty: the first tensor
  std::vector<std::vector<std::string>> choices;  // of `cpp`: one overload for each set of nested arguments
  Position at;
};

/// `derivative: {order: 2, of: attention}`: the op is part of a derivative of this order, and has none itself.
struct OrderLimit {
  int order = 0;   // 0: no limit
  std::string of;  // the op whose derivatives end here
  Position at = {};
};

/// `autocast:`: what some inputs are converted to in the scope of an Autocast.
struct AutocastRule {
  enum class To { nothing, half, float32 };
  To to = To::nothing;
  std::vector<std::string> of;  // inputs
  Position at = {};
};

/// `linear:`: inputs that the op is said to be linear in, together, in some of its results or in all.
struct LinearSet {
  std::vector<std::string> inputs;
  std::vector<size_t> results = {};  // none: all

  bool of(const std::string& input) const { return std::find(inputs.begin(), inputs.end(), input) != inputs.end(); }
  bool gives(size_t result) const {
    return results.empty() || std::find(results.begin(), results.end(), result) != results.end();
  }
};

enum class Dtypes { floating, numeric, all, integral };

/// What an op is apart from its formulas: the part of an entry that needs no resolving.
struct Declaration {
  enum class Body { pointwise, kernel, native, composite, composite_cpp };

  Position at;
  std::string stem;  // of the entry file: pointwise
  Home home;
  Schema schema;
  std::string doc;
  std::string math;  // what it computes, as LaTeX, where no formula says it
  Body body = Body::native;
  Position body_at;
  std::string because;                    // body composite_cpp: why no formula says it
  std::map<std::string, Kernel> kernels;  // body kernel: by device
  bool wrap_dims = true;
  bool strided_all = false;
  std::vector<std::string> strided;   // inputs that the kernel takes with any strides
  std::vector<std::string> permuted;  // operands, and their sizes, that it runs on in the order of dims that they share
  bool permuted_slices = false;       // unless `dim` is the innermost in that order
  std::vector<LinearSet> linear_in;
  std::vector<std::string> metadata;  // inputs of which it reads sizes and dtype alone
  std::string host;                   // why it computes on the host, wherever its operands are; empty: where they are
  std::string cpu_only;               // why its kernel is for the CPU alone; empty: it is not
  Dtypes dtypes = Dtypes::floating;
  AutocastRule autocast;
  bool inplace = false;
  bool out = false;
  bool method = false;  // of Tensor, and of NestedTensor where that has an overload
  bool non_differentiable = false;
  bool derivative_auto = false;  // of the pointwise expression
  OrderLimit limit;              // beyond it derivatives are errors
  NestedRule nested;
  bool linear = false;        // claimed: the forward rule is auto_linear; tests hold the op to it
  bool element_wise = false;  // auto_element_wise
  bool test_gradients = true;
  bool test_strided = true;
  bool external = false;  // known to formulas, emitted elsewhere
  bool derived = false;   // a fused derivative: no documentation, no tests of its own
  int order = 0;          // of differentiation, for derived entries

  const std::string& name() const { return schema.name; }
  std::string unique_name() const { return schema.unique_name(); }
  bool is_view() const;          // a result aliases an argument that is not written
  bool writes_argument() const;  // Tensor(a!) self
  bool is_composite() const { return body == Body::composite || body == Body::composite_cpp; }
  bool takes_rows() const;                       // pointwise, of several tensors: it reads rows that repeat where they are
  std::vector<const Argument*> tensors() const;  // Tensor, Tensor? and Tensor[] arguments
  std::string result_name(size_t index) const { return schema.result_name(index); }
  std::vector<std::string> argument_names() const;  // as they are written, records whole
  /// How many arguments stand before the '*'; those after it are options.
  size_t positional() const;
  bool has_options() const { return positional() < schema.arguments.size(); }
  size_t index_of(const std::string& argument) const;
  bool takes(Base base) const;  // an argument of this type
};

/// Whether the argument names dims: dim, dim0, dim1 ..., dims, start_dim, end_dim.
bool is_dim(const Argument& argument);

}  // namespace opgen
