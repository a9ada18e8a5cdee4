// Programs of ops on nested tensors, each op said twice: of the batch, and of one component at a time with dense ops.
#pragma once

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/nested/support.h"

namespace deckle::testing {

using Parts = std::vector<Tensor>;  // the components, as dense tensors

/// One op: what it takes of the values before it, and its numbers. The n-th step makes the n-th value after the inputs.
struct Step {
  std::string op;
  std::vector<size_t> from;
  std::vector<int64_t> dims;
  int64_t first = 0, second = 0, third = 0;
  bool keepdim = false;
  std::vector<Tensor> dense;  // dense operands: inputs as well

  std::string text() const {
    std::string shapes;
    for (const Tensor& each : dense) shapes += " " + to_string(each.sizes());
    return fmt::format("{}({}; dims {}, {} {} {}{}{})", op, fmt::join(from, ", "), to_string(Ints(dims)), first, second, third,
                       keepdim ? ", keepdim" : "", shapes.empty() ? "" : ", dense" + shapes);
  }
};

struct Input {
  std::vector<int64_t> sizes;
  int ragged_dims;
  Dims regular;
  std::vector<double> values;  // packed
};

struct Program {
  std::vector<Input> inputs;
  std::vector<Step> steps;

  std::string text() const {
    std::string lines;
    size_t at = 0;
    for (const Input& input : inputs)
      lines += fmt::format("  {} = components {} of {} ragged dims, regular {}\n", at++, to_string(Ints(input.sizes)),
                           input.ragged_dims, to_string(input.regular));
    for (const Step& step : steps) lines += fmt::format("  {} = {}\n", at++, step.text());
    return lines;
  }
};

/// A value of both runs. `batch`: dim 0 of the nested one is the batch; else it is dense, and `parts` holds one tensor.
struct Value {
  NestedTensor nested;
  Parts parts;
  bool batch = true;

  int64_t ragged_dims() const { return nested.ragged_dims(); }
  int64_t dims() const { return nested.dim(); }
  bool is_ragged(int64_t dim) const { return dim <= ragged_dims(); }
  int64_t smallest(int64_t dim) const {
    int64_t size = 1 << 20;
    for (const Tensor& part : parts) size = std::min(size, part.size(dim - 1));
    return parts.empty() ? 0 : size;
  }
};

/// What may be wrong with a program: a value or a derivative that differs.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The result of a step: `dense` are its dense operands, for both.
NestedTensor run_nested(const Step& step, const std::vector<Value>& values, const std::vector<Tensor>& dense);
Parts run_loop(const Step& step, const std::vector<Value>& values, const std::vector<Tensor>& dense);

/// Ops of one operand, by name.
using Unary = std::pair<NestedTensor (*)(const NestedTensor&), Tensor (*)(const Tensor&)>;
const std::map<std::string, Unary>& unary_ops();

/// Whether dim 0 of an op's result is the batch.
inline bool keeps_batch(const std::string& op) { return op != "batch_sum" && op != "batch_mean"; }

}  // namespace deckle::testing
