// Random programs of ops on nested tensors, compared with the same programs on one component at a time with dense ops: every
// value, the gradients of all inputs and the tangents of all values; and ops by themselves in bfloat16 and float16. A failure
// prints the seed and a shorter program that still fails. DECKLE_TEST_PROGRAMS=20000 draws more than a thousand.
#include <algorithm>
#include <cmath>
#include <optional>

#include "deckle/autograd/backward.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/program.h"

namespace deckle {
namespace {

using namespace testing;

/// What a program is differentiated in: the packed values of its inputs, then the dense operands of its steps, for the batch; and
/// the same in parts, for the loop.
struct Leaves {
  std::vector<Tensor> nested;
  std::vector<Parts> loop;
};

Ragged ragged_of(const Input& input) {
  return input.ragged_dims == 0 ? Ragged() : Ragged(std::make_shared<const RaggedShape>(input.sizes, input.ragged_dims));
}

Leaves leaves_of(const Program& program, DType dtype) {
  const auto leaf = [&](const Dims& sizes, const double* from) {
    const Tensor values = empty(sizes, DType::float64);
    std::copy(from, from + values.numel(), values.data<double>());
    return to(values, dtype).detach().requires_grad_();
  };
  Leaves leaves;
  for (const Input& input : program.inputs) {
    const Ragged ragged = ragged_of(input);
    const double* next = input.values.data();
    Dims sizes = input.regular;
    sizes.insert(sizes.begin(), ragged.defined() ? ragged->rows() : input.sizes[0]);
    leaves.nested.push_back(leaf(sizes, next));
    Parts parts;
    for (int64_t b = 0; b < (ragged.defined() ? ragged->components() : input.sizes[0]); ++b) {
      Dims own = input.regular;
      for (int d = input.ragged_dims; d-- > 0;) own.insert(own.begin(), ragged->size(b, d));
      parts.push_back(leaf(own, next));
      next += parts.back().numel();
    }
    leaves.loop.push_back(parts);
  }
  for (const Step& step : program.steps) {
    for (const Tensor& dense : step.dense) {
      const std::vector<double> values = dense.to_vector();
      leaves.nested.push_back(leaf(Dims(dense.sizes()), values.data()));
      leaves.loop.push_back({leaf(Dims(dense.sizes()), values.data())});
    }
  }
  return leaves;
}

std::vector<Value> input_values(const std::vector<Input>& inputs, const Leaves& leaves) {
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back({NestedTensor(leaves.nested[i], ragged_of(inputs[i])), leaves.loop[i]});
  return values;
}

/// Both runs of a program: all of its values.
std::vector<Value> evaluate(const Program& program, const Leaves& leaves) {
  std::vector<Value> values = input_values(program.inputs, leaves);
  size_t next = values.size();
  for (const Step& step : program.steps) {
    std::vector<Tensor> nested_dense, loop_dense;
    for (size_t i = 0; i < step.dense.size(); ++i, ++next) {
      nested_dense.push_back(leaves.nested[next]);
      loop_dense.push_back(leaves.loop[next][0]);
    }
    Parts parts = run_loop(step, values, loop_dense);
    values.push_back({run_nested(step, values, nested_dense), std::move(parts), keeps_batch(step.op)});
  }
  return values;
}

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

/// Numbers that differ from element to element.
Tensor weights(Ints sizes, int64_t from, DType dtype) {
  const Tensor result = empty(sizes, DType::float64);
  for (int64_t i = 0; i < result.numel(); ++i) result.data<double>()[i] = std::sin(static_cast<double>(3 * (i + from) + 1));
  return to(result, dtype);
}

/// Of each leaf, by both runs: the gradients of `values`, each element of which has a weight of its own, one that `rounding`
/// holds.
struct Gradients {
  std::vector<std::vector<double>> nested, loop;
};
Gradients gradients_of(std::span<const Value> values, const Leaves& leaves, DType rounding) {
  std::vector<Tensor> outputs, output_weights, loop_outputs, loop_weights, flat;
  for (const Value& value : values) {
    const Tensor& all = value.nested.values();
    if (all.requires_grad()) {
      outputs.push_back(all);
      output_weights.push_back(to(weights(all.sizes(), 0, rounding), all.dtype()));
    }
    int64_t from = 0;
    for (const Tensor& part : value.parts) {
      if (part.requires_grad()) {
        loop_outputs.push_back(part);
        loop_weights.push_back(to(weights(part.sizes(), from, rounding), part.dtype()));
      }
      from += part.numel();
    }
  }
  for (const Parts& parts : leaves.loop) flat.insert(flat.end(), parts.begin(), parts.end());
  const auto gradients = [](const std::vector<Tensor>& of, const std::vector<Tensor>& by, const std::vector<Tensor>& in) {
    return of.empty() ? std::vector<Tensor>(in.size()) : grad(of, in, {.grad_outputs = by, .allow_unused = true});
  };
  const std::vector<Tensor> got = gradients(outputs, output_weights, leaves.nested);
  const std::vector<Tensor> expected = gradients(loop_outputs, loop_weights, flat);
  const auto numbers = [](const Tensor& gradient, const Tensor& leaf) {
    return gradient.defined() ? gradient.to_vector() : std::vector<double>(static_cast<size_t>(leaf.numel()), 0);
  };
  Gradients result;
  size_t next = 0;
  for (size_t i = 0; i < leaves.nested.size(); ++i) {
    result.nested.push_back(numbers(got[i], leaves.nested[i]));
    std::vector<double>& of_parts = result.loop.emplace_back();
    for (const Tensor& part : leaves.loop[i]) {
      const std::vector<double> own = numbers(expected[next++], part);
      of_parts.insert(of_parts.end(), own.begin(), own.end());
    }
  }
  return result;
}

void compare_gradients(std::span<const Value> values, const Leaves& leaves) {
  const Gradients gradients = gradients_of(values, leaves, DType::float64);
  for (size_t i = 0; i < leaves.nested.size(); ++i)
    compare(fmt::format("the gradient of input {}", i), gradients.nested[i], gradients.loop[i]);
}

/// Forward mode: the tangents of all values, by equal tangents of the leaves of both runs.
void compare_tangents(const Program& program) {
  const Leaves leaves = leaves_of(program, DType::float64);
  std::vector<Tensor> points, directions;
  for (const Tensor& leaf : leaves.nested) {
    points.push_back(leaf.detach());
    directions.push_back(weights(leaf.sizes(), 5, DType::float64));
  }
  for (const Parts& parts : leaves.loop) {
    int64_t from = 5;
    for (const Tensor& part : parts) {
      points.push_back(part.detach());
      directions.push_back(weights(part.sizes(), from, DType::float64));
      from += part.numel();
    }
  }
  std::vector<Value> values;
  const auto run = [&](const std::vector<Tensor>& duals) {
    Leaves own;
    auto next = duals.begin();
    for (size_t i = 0; i < leaves.nested.size(); ++i) own.nested.push_back(*next++);
    for (const Parts& parts : leaves.loop) {
      own.loop.emplace_back(next, next + static_cast<std::ptrdiff_t>(parts.size()));
      next += static_cast<std::ptrdiff_t>(parts.size());
    }
    values = evaluate(program, own);
    std::vector<Tensor> all;
    for (const Value& value : values) {
      all.push_back(value.nested.values());
      all.insert(all.end(), value.parts.begin(), value.parts.end());
    }
    return all;
  };
  const auto [all, tangents] = jvp(run, points, directions);
  const auto numbers = [](const Tensor& tangent, const Tensor& of) {
    return tangent.defined() ? tangent.to_vector() : std::vector<double>(static_cast<size_t>(of.numel()), 0);
  };
  size_t next = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    const std::vector<double> got = numbers(tangents[next], all[next]);
    ++next;
    std::vector<double> expected;
    for (size_t b = 0; b < values[v].parts.size(); ++b, ++next) {
      const std::vector<double> own = numbers(tangents[next], all[next]);
      expected.insert(expected.end(), own.begin(), own.end());
    }
    compare(fmt::format("the tangent of value {}", v), got, expected);
  }
}

/// `got` may be three times as far from the float64 result as dense ops of its dtype are, and two last bits of itself and of
/// `scale`.
void compare_half(const std::string& what, const std::vector<double>& got, const std::vector<double>& by_loop,
                  const std::vector<double>& exact, DType dtype, double scale) {
  if (got.size() != exact.size()) throw Wrong(fmt::format("{}: {} elements, not {}", what, got.size(), exact.size()));
  double error = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (std::isfinite(by_loop[i]) && std::isfinite(exact[i])) error = std::max(error, std::abs(by_loop[i] - exact[i]));
  }
  const double last_bit = dtype == DType::bfloat16 ? 1.0 / 128 : 1.0 / 1024;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(by_loop[i]) || !std::isfinite(exact[i])) continue;
    if (!(std::abs(got[i] - exact[i]) <= 3 * error + 2 * last_bit * (scale + std::abs(exact[i]))))
      throw Wrong(fmt::format("{}: element {} is {:.6g}, by the loop {:.6g} and in float64 {:.6g}", what, i, got[i], by_loop[i],
                              exact[i]));
  }
}

/// The program of one step, on values that `dtype` holds.
Program alone(const Step& step, const std::vector<Value>& values, DType dtype) {
  const auto rounded = [&](const Tensor& x) { return to(to(x.detach(), dtype), DType::float64); };
  Program program;
  Step own = step;
  for (size_t i = 0; i < step.from.size(); ++i) {
    const NestedTensor& x = values[step.from[i]].nested;
    Input input{
        {}, x.ragged_dims(), Dims(x.values().sizes().begin() + 1, x.values().sizes().end()), rounded(x.values()).to_vector()};
    for (int64_t b = 0; b < x.components(); ++b) {
      for (int d = 0; d < x.ragged_dims(); ++d) input.sizes.push_back(x.ragged()->size(b, d));
    }
    if (x.ragged_dims() == 0) input.sizes = {x.components()};
    own.from[i] = program.inputs.size();
    program.inputs.push_back(std::move(input));
  }
  for (Tensor& dense : own.dense) dense = rounded(dense);
  program.steps = {own};
  return program;
}

/// Each step by itself, in a dtype of 16 bits.
void compare_halves(const Program& program, const std::vector<Value>& values, DType dtype) {
  for (const Step& step : program.steps) {
    const Program one = alone(step, values, dtype);
    const Leaves half_leaves = leaves_of(one, dtype), exact_leaves = leaves_of(one, DType::float64);
    const Value half = evaluate(one, half_leaves).back(), exact = evaluate(one, exact_leaves).back();
    const std::string what = fmt::format("{} in {}", step.text(), name(dtype));
    compare_half(what, half.nested.values().to_vector(), packed(half.parts), packed(exact.parts), dtype, 0.1);
    const Gradients got = gradients_of({&half, 1}, half_leaves, dtype), expected = gradients_of({&exact, 1}, exact_leaves, dtype);
    double scale = 0.5;            // terms of a sum, which may cancel, are about one
    if (step.op == "attention") {  // its backward subtracts a product with the rounded result from products as large
      double most = 0;
      for (const Input& input : one.inputs) {
        for (const double value : input.values) most = std::max(most, std::abs(value));
      }
      scale += most * most * std::sqrt(static_cast<double>(exact.parts[0].size(-1)));
    }
    for (size_t i = 0; i < half_leaves.nested.size(); ++i)
      compare_half(fmt::format("the gradient of operand {} of {}", i, what), got.nested[i], got.loop[i], expected.loop[i], dtype,
                   scale);
  }
}

int64_t draws = 0, refusals = 0;
std::map<std::string, int64_t> refused_ops, taken_ops;

/// Whether two elements of a part lie so close that other roundings may order them otherwise.
bool has_near_ties(const Parts& parts) {
  for (const Tensor& part : parts) {
    std::vector<double> sorted = part.to_vector();
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i] - sorted[i - 1] < 1e-9) return true;
    }
  }
  return false;
}

bool accepts(const Step& step, const std::vector<Value>& values) {
  try {
    (void)run_nested(step, values, step.dense);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::value && error.kind() != ErrorKind::not_implemented) throw;
    return false;
  }
}

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
    std::vector<Value> values = input_values(program.inputs, leaves_of(program, DType::float64));
    for (int tries = 0; program.steps.size() < 7 && tries < 60; ++tries) {
      const std::optional<Step> step = draw(values);
      if (!step) continue;
      Parts parts;
      try {
        parts = run_loop(*step, values, step->dense);
      } catch (const Error&) {
        continue;  // the dense op takes no such operands
      }
      const std::vector<double> all = packed(parts);
      if (std::any_of(all.begin(), all.end(), [](double value) { return !(std::abs(value) < 1e3); })) continue;
      ++draws;
      if (!accepts(*step, values)) {
        ++refusals;
        ++refused_ops[step->op];
        continue;
      }
      ++taken_ops[step->op];
      program.steps.push_back(*step);
      try {
        values.push_back({run_nested(*step, values, step->dense), std::move(parts), keeps_batch(step->op)});
        compare_value(step->op, values.back());
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
        "unary",     "unary",      "unary",     "binary",       "binary",    "binary",     "dense",  "dense",
        "scale",     "minus_from", "where",     "masked_fill",  "batch_sum", "batch_mean", "reduce", "reduce",
        "reduce",    "reduce",     "softmax",   "log_softmax",  "cumsum",    "matmul",     "linear", "layer_norm",
        "rms_norm",  "scores",     "mix",       "transpose",    "transpose", "select",     "slice",  "slice",
        "narrow",    "flip",       "roll",      "index_select", "cat",       "cat",        "stack",  "unsqueeze",
        "attention", "attention",  "attention", "sort",         "topk",      "cummax",     "conv1d", "conv1d",
        "conv2d",    "write",      "write",     "write"};
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
    if (step.op == "attention") {
      if (x.ragged_dims() != 1 || dims < 3 || dims > 4 || part.size(-1) == 0 || part.size(1) == 0) return {};
      const auto fits = [&](const Value& y) {
        return y.batch && y.parts.size() == x.parts.size() && y.ragged_dims() == 1 && y.dims() == dims &&
               y.parts[0].size(-1) == part.size(-1) && y.parts[0].size(-2 + (dims == 3)) == part.size(-2 + (dims == 3));
      };
      for (int n = 0; n < 2; ++n) {
        const size_t other = any();
        step.from.push_back(fits(values[other]) ? other : step.from.back());
      }
      if (values[step.from[1]].nested.ragged() != values[step.from[2]].nested.ragged()) step.from[2] = step.from[1];
      step.first = random_integer(0, 2);
      step.second = random_integer(0, 2);
      step.third = random_integer(0, 2);
      return step;
    }
    if (step.op == "sort" || step.op == "topk" || step.op == "cummax") {
      if (has_near_ties(x.parts)) return {};
      step.dims = {any_dim()};
      step.first = random_integer(0, x.is_ragged(step.dims[0]) ? 3 : x.smallest(step.dims[0]));
      step.keepdim = random_integer(0, 1) == 0;
      return step;
    }
    if (step.op == "conv1d" || step.op == "conv2d") {
      const bool images = step.op == "conv2d";
      if (x.is_ragged(dims - 1) || part.dim() < (images ? 3 : 2)) return {};
      const int64_t size = images ? 2 : random_integer(1, 3);
      step.first = images ? 1 : random_integer(1, 2);
      step.second = random_integer(0, images ? 1 : 2);
      dense(images ? Dims{2, part.size(-1), size, size} : Dims{2, part.size(-1), size});
      dense({2});
      return step;
    }
    if (step.op == "write") {
      step.op = std::vector<std::string>{"scaled_and_added_", "tanh_of_product_", "filled_and_squared_", "component_times_",
                                         "place_plus_"}[one_of(5)];
      if (step.op == "component_times_") step.first = random_integer(0, static_cast<int64_t>(x.parts.size()) - 1);
      if (step.op == "tanh_of_product_") dense(Dims(part.sizes().begin() + x.ragged_dims(), part.sizes().end()));
      if (step.op == "place_plus_") {
        step.dims = {any_dim()};
        if (x.is_ragged(step.dims[0]) || part.size(step.dims[0] - 1) == 0) return {};
        step.first = random_integer(0, part.size(step.dims[0] - 1) - 1);
        dense({});
      }
      if (step.op == "scaled_and_added_" || step.op == "filled_and_squared_") {
        if (!second() || values[step.from[1]].parts.size() != x.parts.size()) return {};
        for (size_t b = 0; b < x.parts.size(); ++b) {
          if (values[step.from[1]].parts[b].sizes() != x.parts[b].sizes()) return {};
        }
      }
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

/// What is wrong with a program; "" if nothing is, none if its steps do not fit together. `half`: the dtype of 16 bits that its
/// steps are looked at in, if any.
std::optional<std::string> verdict(const Program& program, std::optional<DType> half) {
  const Leaves leaves = leaves_of(program, DType::float64);
  std::vector<Value> values;
  try {
    values = evaluate(program, leaves);
  } catch (const std::exception&) {
    return {};
  }
  try {
    const size_t inputs = program.inputs.size();
    for (size_t v = inputs; v < values.size(); ++v)
      compare_value(fmt::format("value {}, {}", v, program.steps[v - inputs].op), values[v]);
    compare_gradients(std::span(values).subspan(inputs), leaves);
    compare_tangents(program);
    if (half) compare_halves(program, values, *half);
  } catch (const Wrong& wrong) {
    return wrong.what();
  } catch (const std::exception& error) {
    return fmt::format("a derivative throws: {}", error.what());
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

Program shortest(Program program, std::optional<DType> half) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = program.steps.size(); s-- > 0;) {
      const Program shorter = without(program, s);
      const std::optional<std::string> wrong = verdict(shorter, half);
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
    const std::optional<DType> half = n % 8 == 0   ? std::optional(DType::bfloat16)
                                      : n % 4 == 2 ? std::optional(DType::float16)
                                                   : std::nullopt;
    const std::optional<std::string> wrong = verdict(program, half);
    ASSERT_TRUE(wrong) << "a program runs once and not twice:\n" << program.text();
    if (wrong->empty()) continue;
    ++failures;
    const Program shorter = shortest(program, half);
    ADD_FAILURE() << "DECKLE_TEST_SEED=" << seed() << ", program " << n << ": " << *verdict(shorter, half) << "\n"
                  << shorter.text();
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
