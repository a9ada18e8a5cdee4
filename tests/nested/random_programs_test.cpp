// Random programs of ops on nested tensors, compared with the same programs on one component at a time with dense ops: every
// value, and the gradients of all inputs. A failure prints the seed and a shorter program that still fails.
// DECKLE_TEST_PROGRAMS=20000 draws more than a thousand.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "deckle/autograd/backward.h"
#include "deckle/functional/variable.h"
#include "deckle/nested/generated/all.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;
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

/// What may be wrong with a program: a value or a gradient that differs.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<double> packed(const Parts& parts) {
  std::vector<double> all;
  for (const Tensor& part : parts) {
    const std::vector<double> values = part.to_vector();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void compare(const std::string& what, const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) throw Wrong(fmt::format("{}: {} elements, not {}", what, got.size(), expected.size()));
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    if (!(std::abs(got[i] - expected[i]) <= 1e-9 * (1 + std::abs(expected[i]))))
      throw Wrong(fmt::format("{}: element {} is {:.12g}, by the loop {:.12g}", what, i, got[i], expected[i]));
  }
}

void compare_value(const std::string& what, const Value& value) {
  if (!value.batch) {
    if (value.nested.values().sizes() != value.parts[0].sizes())
      throw Wrong(fmt::format("{}: shape {}, by the loop {}", what, to_string(value.nested.values().sizes()),
                              to_string(value.parts[0].sizes())));
    return compare(what, value.nested.values().to_vector(), value.parts[0].to_vector());
  }
  if (value.nested.components() != static_cast<int64_t>(value.parts.size()))
    throw Wrong(fmt::format("{}: {} components, by the loop {}", what, value.nested.components(), value.parts.size()));
  for (size_t b = 0; b < value.parts.size(); ++b) {
    const Tensor component = value.nested[static_cast<int64_t>(b)];
    if (component.sizes() != value.parts[b].sizes())
      throw Wrong(fmt::format("{}: component {} has shape {}, by the loop {}", what, b, to_string(component.sizes()),
                              to_string(value.parts[b].sizes())));
    compare(fmt::format("{}, component {}", what, b), component.to_vector(), value.parts[b].to_vector());
  }
}

const std::map<std::string, std::pair<NestedTensor (*)(const NestedTensor&), Tensor (*)(const Tensor&)>>& unary_ops() {
#define PAIR(op)                                                                         \
  {                                                                                      \
#op, {                                                                               \
      [](const NestedTensor& x) { return op(x); }, [](const Tensor& x) { return op(x); } \
    }                                                                                    \
  }
  static const std::map<std::string, std::pair<NestedTensor (*)(const NestedTensor&), Tensor (*)(const Tensor&)>> kOps = {
      PAIR(tanh), PAIR(sin), PAIR(sigmoid), PAIR(silu), PAIR(softplus), PAIR(neg), PAIR(gelu), PAIR(erf), PAIR(square)};
#undef PAIR
  return kOps;
}

template <typename A, typename B>
auto binary_of(const std::string& op, const A& a, const B& b) {
  if (op == "add") return add(a, b);
  if (op == "sub") return sub(a, b);
  if (op == "mul") return mul(a, b);
  if (op == "maximum") return maximum(a, b);
  return div(a, add(square(b), 1.0));
}
bool is_binary(const std::string& op) { return op == "add" || op == "sub" || op == "mul" || op == "maximum" || op == "div"; }

template <typename X>
X reduced(const std::string& op, const X& x, const std::vector<int64_t>& dims, bool keepdim) {
  if (op == "sum") return sum(x, dims, keepdim);
  if (op == "mean") return mean(x, dims, keepdim);
  if (op == "amax") return amax(x, dims, keepdim);
  if (op == "amin") return amin(x, dims, keepdim);
  if (op == "prod") return prod(x, dims, keepdim);
  if (op == "var") return var(x, dims, {.correction = 0, .keepdim = keepdim});
  if (op == "norm") return norm(x, dims, keepdim);
  return logsumexp(x, dims[0], keepdim);
}
bool is_reduction(const std::string& op) {
  static const std::vector<std::string> kOps = {"sum", "mean", "amax", "amin", "prod", "var", "norm", "logsumexp"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

std::vector<int64_t> inner(std::vector<int64_t> dims) {
  for (int64_t& dim : dims) --dim;
  return dims;
}

/// The sum or mean of the components position by position, of those that reach it.
Tensor over_batch(const std::string& op, const Parts& parts) {
  Dims longest(parts[0].sizes());
  for (const Tensor& part : parts) {
    for (int64_t d = 0; d < part.dim(); ++d)
      longest[static_cast<size_t>(d)] = std::max(longest[static_cast<size_t>(d)], part.size(d));
  }
  Tensor total = zeros(longest, DType::float64), count = zeros(longest, DType::float64);
  for (const Tensor& part : parts) {
    Tensor padded = part, ones = ones_like(part);
    for (int64_t d = 0; d < part.dim(); ++d) {
      Dims rest(padded.sizes());
      rest[static_cast<size_t>(d)] = longest[static_cast<size_t>(d)] - part.size(d);
      padded = cat({padded, zeros(rest, DType::float64)}, d);
      ones = cat({ones, zeros(rest, DType::float64)}, d);
    }
    total = total + padded;
    count = count + ones;
  }
  return op == "mean" ? total / count : total;
}

NestedTensor run_nested(const Step& step, const std::vector<Value>& values, const std::vector<Tensor>& dense) {
  const NestedTensor& x = values[step.from[0]].nested;
  const std::string& op = step.op;
  if (const auto unary = unary_ops().find(op); unary != unary_ops().end()) return unary->second.first(x);
  if (is_binary(op))
    return step.from.size() > 1 ? binary_of(op, x, values[step.from[1]].nested)
           : step.first == 0    ? binary_of(op, x, dense[0])
                                : binary_of(op, dense[0], x);
  if (op == "scale") return sub(mul(x, 0.75), 0.5);
  if (op == "minus_from") return sub(1.5, x);
  if (op == "where") return where(gt(x, 0.2), values[step.from[1]].nested, 0.25);
  if (op == "masked_fill") return masked_fill(x, lt(values[step.from[1]].nested, 0.1), -0.5);
  if (op == "batch_sum") return sum(x, {0});
  if (op == "batch_mean") return mean(x, {0});
  if (is_reduction(op)) return reduced(op, x, step.dims, step.keepdim);
  if (op == "softmax") return softmax(x, step.dims[0]);
  if (op == "log_softmax") return log_softmax(x, step.dims[0]);
  if (op == "cumsum") return cumsum(x, step.dims[0], step.keepdim);
  if (op == "matmul") return matmul(x, dense[0]);
  if (op == "linear") return linear(x, dense[0], dense[1]);
  if (op == "layer_norm") return layer_norm(x, dense[0], dense[1], 0.1);
  if (op == "rms_norm") return rms_norm(x, dense[0], 0.1);
  if (op == "scores") return matmul(x, transpose(values[step.from[1]].nested, 1, 2));
  if (op == "mix") return matmul(x, values[step.from[1]].nested);
  if (op == "transpose") return transpose(x, step.dims[0], step.dims[1]);
  if (op == "select") return select(x, step.dims[0], step.first);
  if (op == "slice") return slice(x, step.dims[0], step.first, step.second, step.third);
  if (op == "narrow") return narrow(x, step.dims[0], step.first, step.second);
  if (op == "flip") return flip(x, step.dims);
  if (op == "roll") return roll(x, step.first, step.dims[0]);
  if (op == "index_select") return index_select(x, step.dims[0], integers({step.first, step.second, step.first}));
  if (op == "cat") return cat({x, values[step.from[1]].nested}, step.dims[0]);
  if (op == "stack") return stack({x, values[step.from[1]].nested}, step.dims[0]);
  if (op == "unsqueeze") return unsqueeze(x, step.dims[0]);
  throw std::logic_error("no op " + op);
}

Parts run_loop(const Step& step, const std::vector<Value>& values, const std::vector<Tensor>& dense) {
  const Value& x = values[step.from[0]];
  const std::string& op = step.op;
  if (op == "batch_sum") return {over_batch("sum", x.parts)};
  if (op == "batch_mean") return {over_batch("mean", x.parts)};
  const int64_t count = static_cast<int64_t>(x.parts.size());
  if (!step.dims.empty() && step.dims[0] == 0) {  // the batch
    Parts parts = x.parts;
    if (op == "flip") std::reverse(parts.begin(), parts.end());
    if (op == "roll") {
      for (int64_t b = 0; b < count; ++b)
        parts[static_cast<size_t>(((b + step.first) % count + count) % count)] = x.parts[static_cast<size_t>(b)];
    }
    if (op == "cat") parts.insert(parts.end(), values[step.from[1]].parts.begin(), values[step.from[1]].parts.end());
    if (op == "index_select")
      parts = {x.parts[static_cast<size_t>(step.first)], x.parts[static_cast<size_t>(step.second)],
               x.parts[static_cast<size_t>(step.first)]};
    return parts;
  }
  Parts parts;
  for (size_t b = 0; b < x.parts.size(); ++b) {
    const Tensor& part = x.parts[b];
    const auto other = [&] { return values[step.from[1]].parts.at(b); };
    const int64_t dim = step.dims.empty() ? 0 : step.dims[0] - 1;
    if (const auto unary = unary_ops().find(op); unary != unary_ops().end()) {
      parts.push_back(unary->second.second(part));
    } else if (is_binary(op) && step.from.size() > 1) {
      // Of fewer dims: the ragged ones correspond from the left, the regular ones from the right.
      Tensor left = part, right = other();
      while (left.dim() < right.dim()) left = left.unsqueeze(x.ragged_dims());
      while (right.dim() < left.dim()) right = right.unsqueeze(values[step.from[1]].ragged_dims());
      parts.push_back(binary_of(op, left, right));
    } else if (is_binary(op)) {
      const Tensor own = step.second == 1 ? dense[0][static_cast<int64_t>(b)] : dense[0];
      parts.push_back(step.first == 0 ? binary_of(op, part, own) : binary_of(op, own, part));
    } else if (op == "scale") {
      parts.push_back(sub(mul(part, 0.75), 0.5));
    } else if (op == "minus_from") {
      parts.push_back(sub(1.5, part));
    } else if (op == "where") {
      parts.push_back(where(gt(part, 0.2), other(), 0.25));
    } else if (op == "masked_fill") {
      parts.push_back(masked_fill(part, lt(other(), 0.1), -0.5));
    } else if (is_reduction(op)) {
      parts.push_back(reduced(op, part, inner(step.dims), step.keepdim));
    } else if (op == "softmax") {
      parts.push_back(softmax(part, dim));
    } else if (op == "log_softmax") {
      parts.push_back(log_softmax(part, dim));
    } else if (op == "cumsum") {
      parts.push_back(cumsum(part, dim, step.keepdim));
    } else if (op == "matmul") {
      parts.push_back(matmul(part, dense[0]));
    } else if (op == "linear") {
      parts.push_back(linear(part, dense[0], dense[1]));
    } else if (op == "layer_norm") {
      parts.push_back(layer_norm(part, dense[0], dense[1], 0.1));
    } else if (op == "rms_norm") {
      parts.push_back(rms_norm(part, dense[0], 0.1));
    } else if (op == "scores") {
      parts.push_back(matmul(part, transpose(other(), 0, 1)));
    } else if (op == "mix") {
      parts.push_back(matmul(part, other()));
    } else if (op == "transpose") {
      parts.push_back(transpose(part, dim, step.dims[1] - 1));
    } else if (op == "select") {
      parts.push_back(select(part, dim, step.first));
    } else if (op == "slice") {
      parts.push_back(slice(part, dim, step.first, step.second, step.third));
    } else if (op == "narrow") {
      parts.push_back(narrow(part, dim, step.first, step.second));
    } else if (op == "flip") {
      parts.push_back(flip(part, inner(step.dims)));
    } else if (op == "roll") {
      parts.push_back(roll(part, step.first, dim));
    } else if (op == "index_select") {
      parts.push_back(index_select(part, dim, integers({step.first, step.second, step.first})));
    } else if (op == "cat") {
      parts.push_back(cat({part, other()}, dim));
    } else if (op == "stack") {
      parts.push_back(stack({part, other()}, dim));
    } else if (op == "unsqueeze") {
      parts.push_back(unsqueeze(part, dim));
    } else {
      throw std::logic_error("no op " + op);
    }
  }
  return parts;
}

/// Both runs of a program, step by step.
class Run {
 public:
  explicit Run(const std::vector<Input>& inputs) {
    for (const Input& input : inputs) {
      const Ragged ragged(std::make_shared<const RaggedShape>(input.sizes, input.ragged_dims));
      Dims sizes = input.regular;
      sizes.insert(sizes.begin(), ragged->rows());
      Value value;
      const Tensor packed_values = empty(sizes, DType::float64);
      std::copy(input.values.begin(), input.values.end(), packed_values.data<double>());
      packed_values.requires_grad_();
      value.nested = NestedTensor(packed_values, ragged);
      size_t next = 0;
      for (int64_t b = 0; b < ragged->components(); ++b) {
        Dims own;
        for (int d = 0; d < input.ragged_dims; ++d) own.push_back(ragged->size(b, d));
        for (const int64_t size : input.regular) own.push_back(size);
        const Tensor part = empty(own, DType::float64);
        for (int64_t i = 0; i < part.numel(); ++i) part.data<double>()[i] = input.values[next++];
        part.requires_grad_();
        value.parts.push_back(part);
      }
      leaves_.push_back(packed_values);
      loop_leaves_.push_back(value.parts);
      values_.push_back(std::move(value));
    }
    inputs_ = values_.size();
  }

  const std::vector<Value>& values() const { return values_; }

  /// The loop's result of a step; throws Error where the op does not fit. Nothing is kept.
  Parts try_loop(const Step& step) const { return run_loop(step, values_, step.dense); }
  bool accepts(const Step& step) const {
    try {
      (void)run_nested(step, values_, step.dense);
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::value && error.kind() != ErrorKind::not_implemented) throw;
      return false;
    }
  }

  void add(const Step& step) {
    Value value;
    std::vector<Tensor> nested_dense = functional::variables(step.dense), loop_dense = functional::variables(step.dense);
    value.parts = run_loop(step, values_, loop_dense);
    value.nested = run_nested(step, values_, nested_dense);
    value.batch = op_keeps_batch(step.op);
    for (size_t i = 0; i < step.dense.size(); ++i) {
      leaves_.push_back(nested_dense[i]);
      loop_leaves_.push_back({loop_dense[i]});
    }
    values_.push_back(std::move(value));
    compare_value(fmt::format("value {}, {}", values_.size() - 1, step.op), values_.back());
  }

  /// The gradients of a sum over everything computed, each element with a weight of its own.
  void compare_gradients() const {
    Tensor loss = zeros({}, DType::float64), loop_loss = zeros({}, DType::float64);
    const auto weights = [](Ints sizes, int64_t from) {
      const Tensor result = empty(sizes, DType::float64);
      for (int64_t i = 0; i < result.numel(); ++i) result.data<double>()[i] = std::sin(static_cast<double>(3 * (i + from) + 1));
      return result;
    };
    for (size_t v = inputs_; v < values_.size(); ++v) {
      const Value& value = values_[v];
      loss = loss + sum(value.nested.values() * weights(value.nested.values().sizes(), 0));
      int64_t from = 0;
      for (const Tensor& part : value.parts) {
        loop_loss = loop_loss + sum(part * weights(part.sizes(), from));
        from += part.numel();
      }
    }
    if (!loss.requires_grad()) return;
    const std::vector<Tensor> got = grad({loss}, leaves_, {.allow_unused = true});
    std::vector<Tensor> flat;
    for (const Parts& parts : loop_leaves_) flat.insert(flat.end(), parts.begin(), parts.end());
    const std::vector<Tensor> expected =
        loop_loss.requires_grad() ? grad({loop_loss}, flat, {.allow_unused = true}) : std::vector<Tensor>(flat.size());
    size_t next = 0;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      std::vector<double> of_parts;
      for (const Tensor& part : loop_leaves_[i]) {
        const Tensor& gradient = expected[next++];
        const std::vector<double> values =
            gradient.defined() ? gradient.to_vector() : std::vector<double>(static_cast<size_t>(part.numel()), 0);
        of_parts.insert(of_parts.end(), values.begin(), values.end());
      }
      compare(fmt::format("the gradient of input {}", i),
              got[i].defined() ? got[i].to_vector() : std::vector<double>(of_parts.size(), 0), of_parts);
    }
  }

  static bool op_keeps_batch(const std::string& op) { return op != "batch_sum" && op != "batch_mean"; }

 private:
  std::vector<Value> values_;
  size_t inputs_ = 0;
  std::vector<Tensor> leaves_;
  std::vector<Parts> loop_leaves_;
};

int64_t draws = 0, refusals = 0;
std::map<std::string, int64_t> refused_ops, taken_ops;

class Drawer {
 public:
  Program program() {
    Program program;
    const int64_t components = random_integer(1, 4);
    const auto length = [] { return random_integer(0, 9) == 0 ? 0 : random_integer(1, 4); };
    std::vector<int64_t> lengths, boxes;
    for (int64_t b = 0; b < components; ++b) lengths.push_back(length());
    for (const int64_t rows : lengths) boxes.insert(boxes.end(), {rows, length()});
    const Dims regular = random_integer(0, 2) == 0 ? Dims{} : random_integer(0, 1) == 0 ? Dims{3} : Dims{2, 3};
    program.inputs = {input(lengths, 1, regular), input(lengths, 1, random_integer(0, 1) == 0 ? regular : Dims{3})};
    if (random_integer(0, 1) == 0) program.inputs.push_back(input(boxes, 2, random_integer(0, 1) == 0 ? Dims{} : Dims{2}));
    Run run(program.inputs);
    for (int tries = 0; program.steps.size() < 7 && tries < 60; ++tries) {
      const std::optional<Step> step = draw(run.values());
      if (!step) continue;
      Parts parts;
      try {
        parts = run.try_loop(*step);
      } catch (const Error&) {
        continue;  // the dense op takes no such operands
      }
      const std::vector<double> all = packed(parts);
      if (std::any_of(all.begin(), all.end(), [](double value) { return !(std::abs(value) < 1e3); })) continue;
      ++draws;
      if (!run.accepts(*step)) {
        ++refusals;
        ++refused_ops[step->op];
        continue;
      }
      ++taken_ops[step->op];
      program.steps.push_back(*step);
      try {
        run.add(*step);
      } catch (const Wrong&) {
        break;  // the caller finds out by running the program
      }
    }
    return program;
  }

 private:
  static Input input(std::vector<int64_t> sizes, int ragged_dims, Dims regular) {
    const NestedTensor x = random_nested(sizes, ragged_dims, regular);
    return {std::move(sizes), ragged_dims, std::move(regular), x.values().to_vector()};
  }

  static size_t one_of(size_t count) { return static_cast<size_t>(random_integer(0, static_cast<int64_t>(count) - 1)); }

  std::optional<Step> draw(const std::vector<Value>& values) {
    static const std::vector<std::string> kOps = {
        "unary",    "unary",      "unary",   "binary",       "binary",    "binary",     "dense",  "dense",
        "scale",    "minus_from", "where",   "masked_fill",  "batch_sum", "batch_mean", "reduce", "reduce",
        "reduce",   "reduce",     "softmax", "log_softmax",  "cumsum",    "matmul",     "linear", "layer_norm",
        "rms_norm", "scores",     "mix",     "transpose",    "transpose", "select",     "slice",  "slice",
        "narrow",   "flip",       "roll",    "index_select", "cat",       "cat",        "stack",  "unsqueeze"};
    Step step;
    step.op = kOps[one_of(kOps.size())];
    // Late values are taken more often: programs are to be deep.
    const auto any = [&] {
      const size_t a = one_of(values.size()), b = one_of(values.size());
      return std::max(a, b);
    };
    step.from = {any()};
    const Value& x = values[step.from[0]];
    if (!x.batch || x.parts.empty()) return {};
    const int64_t dims = x.dims();
    const auto any_dim = [&] { return random_integer(1, dims - 1); };
    const Tensor& part = x.parts[0];
    const auto dense = [&](Ints sizes) { step.dense.push_back(random_tensor(sizes)); };
    const auto second = [&] {
      step.from.push_back(any());
      return values[step.from[1]].batch;
    };
    if (step.op == "unary") {
      auto chosen = unary_ops().begin();
      std::advance(chosen, one_of(unary_ops().size()));
      step.op = chosen->first;
      return step;
    }
    if (step.op == "binary" || step.op == "dense") {
      const bool nested = step.op == "binary";
      step.op = std::vector<std::string>{"add", "sub", "mul", "maximum", "div"}[one_of(5)];
      if (nested) {
        if (!second()) return {};
        const Value& y = values[step.from[1]];
        if (y.parts.size() != x.parts.size()) return {};
        // Fewer ragged and as many more regular dims: the loop would have to insert dims in both.
        if (x.ragged_dims() != y.ragged_dims() && x.dims() == y.dims()) return {};
        return step;
      }
      step.first = random_integer(0, 1);
      Dims sizes(part.sizes().begin() + x.ragged_dims(), part.sizes().end());
      if (random_integer(0, 1) == 0) {  // one row for each component
        step.second = 1;
        for (int64_t d = 0; d < x.ragged_dims(); ++d) sizes.insert(sizes.begin(), 1);
        sizes.insert(sizes.begin(), static_cast<int64_t>(x.parts.size()));
      }
      dense(sizes);
      return step;
    }
    if (step.op == "scale" || step.op == "minus_from") return step;
    if (step.op == "where" || step.op == "masked_fill") {
      if (!second() || values[step.from[1]].parts.size() != x.parts.size()) return {};
      for (size_t b = 0; b < x.parts.size(); ++b) {
        if (values[step.from[1]].parts[b].sizes() != x.parts[b].sizes()) return {};
      }
      return step;
    }
    if (step.op == "batch_sum" || step.op == "batch_mean") return step;
    if (dims < 2) return {};
    if (step.op == "reduce") {
      step.op = std::vector<std::string>{"sum", "sum", "mean", "amax", "amin", "prod", "var", "norm", "logsumexp"}[one_of(9)];
      step.dims = {any_dim()};
      if (dims > 2 && step.op != "logsumexp" && random_integer(0, 3) == 0) {
        const int64_t other = any_dim();
        if (other != step.dims[0]) step.dims.push_back(other);
      }
      std::sort(step.dims.begin(), step.dims.end());
      step.keepdim = random_integer(0, 2) == 0;
      // Of nothing these are infinite or no numbers.
      for (const int64_t dim : step.dims) {
        if (x.smallest(dim) == 0 && step.op != "sum" && step.op != "prod") return {};
      }
      return step;
    }
    if (step.op == "softmax" || step.op == "log_softmax" || step.op == "cumsum") {
      step.dims = {any_dim()};
      step.keepdim = random_integer(0, 1) == 0;
      return step;
    }
    if (step.op == "matmul" || step.op == "linear" || step.op == "layer_norm" || step.op == "rms_norm") {
      if (dims - 1 <= x.ragged_dims() || part.dim() < 2) return {};
      const int64_t features = part.size(-1);
      if (step.op == "matmul") {
        dense({features, 2});
      } else if (step.op == "linear") {
        dense({2, features});
        dense({2});
      } else {
        dense({features});
        if (step.op == "layer_norm") dense({features});
      }
      return step;
    }
    if (step.op == "scores" || step.op == "mix") {
      if (!second() || part.dim() != 2 || values[step.from[1]].parts.size() != x.parts.size() ||
          values[step.from[1]].parts[0].dim() != 2)
        return {};
      return step;
    }
    if (step.op == "transpose") {
      step.dims = {any_dim(), any_dim()};
      return step;
    }
    if (step.op == "flip" || step.op == "roll") {
      step.dims = {random_integer(0, dims - 1)};
      step.first = random_integer(-3, 3);
      return step;
    }
    if (step.op == "index_select") {
      step.dims = {random_integer(0, dims - 1)};
      const int64_t size = step.dims[0] == 0 ? static_cast<int64_t>(x.parts.size()) : x.smallest(step.dims[0]);
      if (size == 0) return {};
      step.first = random_integer(0, size - 1);
      step.second = random_integer(0, size - 1);
      return step;
    }
    if (step.op == "cat" || step.op == "stack") {
      if (!second()) return {};
      const Value& y = values[step.from[1]];
      step.dims = {step.op == "stack" ? random_integer(1, dims) : random_integer(0, dims - 1)};
      if (y.dims() != dims || y.ragged_dims() != x.ragged_dims()) return {};
      if (step.dims[0] != 0 && y.parts.size() != x.parts.size()) return {};
      if (step.dims[0] == 0) {  // the loop joins anything: regular sizes must be equal
        if (y.parts.empty() || x.ragged_dims() == 0) return {};
        for (int64_t d = x.ragged_dims(); d < part.dim(); ++d) {
          if (y.parts[0].size(d) != part.size(d)) return {};
        }
      }
      return step;
    }
    if (step.op == "unsqueeze") {
      step.dims = {random_integer(1, dims)};
      return step;
    }
    step.dims = {any_dim()};
    const int64_t size = x.smallest(step.dims[0]);
    if (step.op == "select") {
      if (size == 0) return {};
      step.first = random_integer(0, size - 1);
    } else if (step.op == "slice") {
      step.first = random_integer(0, 2);
      step.second = step.first + random_integer(0, 3);
      step.third = random_integer(1, 2);
    } else {  // narrow
      step.first = random_integer(0, size);
      step.second = random_integer(0, size - step.first);
    }
    return step;
  }
};

/// What is wrong with a program; "" if nothing is, none if its steps do not fit together.
std::optional<std::string> verdict(const Program& program) {
  Run run(program.inputs);
  try {
    for (const Step& step : program.steps) run.add(step);
  } catch (const Wrong& wrong) {
    return wrong.what();
  } catch (const std::exception&) {
    return {};
  }
  try {
    run.compare_gradients();
  } catch (const Wrong& wrong) {
    return wrong.what();
  } catch (const std::exception& error) {
    return fmt::format("the backward pass throws: {}", error.what());
  }
  return "";
}

/// Programs without one of the steps, whose readers read what it read.
Program without(const Program& program, size_t gone) {
  Program result = program;
  const size_t value = program.inputs.size() + gone, instead = program.steps[gone].from[0];
  result.steps.erase(result.steps.begin() + static_cast<std::ptrdiff_t>(gone));
  for (size_t s = gone; s < result.steps.size(); ++s) {
    for (size_t& from : result.steps[s].from) from = from == value ? instead : from > value ? from - 1 : from;
  }
  return result;
}

Program shortest(Program program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = program.steps.size(); s-- > 0;) {
      const Program shorter = without(program, s);
      const std::optional<std::string> wrong = verdict(shorter);
      if (!wrong || wrong->empty()) continue;
      program = shorter;
      changed = true;
    }
  }
  return program;
}

TEST(RandomPrograms, OnNestedTensorsAreTheLoopOverTheirComponents) {
  const char* const more = std::getenv("DECKLE_TEST_PROGRAMS");
  const int wanted = more != nullptr ? std::atoi(more) : 1000;
  int failures = 0;
  for (int n = 0; n < wanted && failures < 3; ++n) {
    const Program program = Drawer().program();
    const std::optional<std::string> wrong = verdict(program);
    ASSERT_TRUE(wrong) << "a program runs once and not twice:\n" << program.text();
    if (wrong->empty()) continue;
    ++failures;
    const Program shorter = shortest(program);
    ADD_FAILURE() << "DECKLE_TEST_SEED=" << seed() << ", program " << n << ": " << *verdict(shorter) << "\n" << shorter.text();
  }
  std::string refused;
  for (const auto& [op, times] : refused_ops) {
    refused += fmt::format(" {} {} of {}", op, times, times + taken_ops[op]);
    EXPECT_LT(times, 1 + taken_ops[op]) << op << " is refused more often than not: it is hardly compared";
  }
  fmt::print("{} steps; refused:{}\n", draws - refusals, refused);
  // The generator draws valid ops: if many were refused, little would be compared.
  EXPECT_LT(refusals, draws / 4) << "too much is refused";
}

}  // namespace
}  // namespace deckle
