#include "tests/opgen/random/check.h"

#include <fmt/format.h>

#include <cmath>

#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/opgen/random/trees.h"

namespace deckle::random_entries {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

struct Difference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Tensor tensor_of(const Sizes& sizes, const std::function<double(size_t)>& element) {
  const Tensor tensor = empty(sizes, DType::float64);
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<double>()[i] = element(static_cast<size_t>(i));
  return tensor;
}

Tensors tensors_of(const std::vector<Array>& arrays, size_t part) {
  Tensors tensors;
  for (const Array& array : arrays)
    tensors.push_back(tensor_of(array.sizes, [&](size_t i) { return static_cast<double>(array.elements[i].part[part]); }));
  return tensors;
}

/// What the interpreter says at one point: everything along the directions u (part 1) and v (part 2) and each element of the
/// inputs.
struct Expected {
  std::vector<Array> results;                     // value, and the parts for u and v
  std::vector<std::vector<std::vector<Jet>>> by;  // [input element][result][element]: jets with the element as third direction
  Real largest = 1;
};

Expected expected_of(const Entry& entry, const Entries& others, std::vector<Array> point) {
  Expected expected;
  Sight sight;
  for (Array& array : point) {
    for (Jet& element : array.elements) element.part[4] = 0;
  }
  expected.results = evaluate(entry, others, point, sight);
  for (Array& array : point) {
    for (Jet& element : array.elements) {
      element.part[4] = 1;
      expected.by.emplace_back();
      for (const Array& result : evaluate(entry, others, point, sight)) expected.by.back().push_back(result.elements);
      element.part[4] = 0;
    }
  }
  expected.largest = sight.largest;
  return expected;
}

class Check {
 public:
  Check(const Entry& entry, const Entries& others, const std::vector<Array>& point, Engine& engine)
      : expected_(expected_of(entry, others, point)),
        x_(tensors_of(point, 0)),
        u_(tensors_of(point, 1)),
        v_(tensors_of(point, 2)) {
    std::normal_distribution<double> normal;
    for (const Array& result : expected_.results) w_.push_back(tensor_of(result.sizes, [&](size_t) { return normal(engine); }));
  }

  void values(const Function& f, const std::string& how) { compare(how + "the value", f(x_), along(0), 1e-11); }

  void derivatives(const Function& f, const std::string& how, bool third) {
    compare(how + "the value where gradients are recorded", f(variables()), along(0), 1e-11);
    {
      const Tensors x = variables(), w = leaves(w_);
      const Tensors g = gradients_of(f(x), x, w, true);
      compare(how + "reverse mode", g, weighted(4), 1e-9);
      Tensors both = x;
      both.insert(both.end(), w.begin(), w.end());
      const Tensors h = gradients_of(g, both, u_, third);
      compare(how + "reverse over reverse", Tensors(h.begin(), h.begin() + static_cast<std::ptrdiff_t>(x.size())), weighted(5),
              1e-8);
      compare(how + "reverse over reverse, of the cotangents",
              Tensors(h.begin() + static_cast<std::ptrdiff_t>(x.size()), h.end()), along(1), 1e-8);
      if (third) {
        const Tensors h_of_x(h.begin(), h.begin() + static_cast<std::ptrdiff_t>(x.size()));
        compare(how + "reverse mode three times", gradients_of(h_of_x, x, v_, false), weighted(7), 1e-7);
      }
    }
    compare(how + "forward mode", jvp(f, x_, u_).second, along(1), 1e-9);
    const auto tangent_along_u = [&](const Tensors& x) { return jvp(f, x, u_).second; };
    compare(how + "forward over forward", jvp(tangent_along_u, x_, v_).second, along(3), 1e-8);
    const auto gradient = [&](const Tensors& x) { return vjp(f, x, w_).second; };
    compare(how + "forward over reverse", jvp(gradient, x_, u_).second, weighted(5), 1e-8);
    {
      const Tensors x = variables();
      compare(how + "reverse over forward", gradients_of(jvp(f, x, u_).second, x, w_, false), weighted(5), 1e-8);
    }
    if (third) {
      const Tensors x = variables();
      const auto both_along = [&](const Tensors& y) { return jvp(tangent_along_u, y, v_).second; };
      compare(how + "reverse over forward over forward", gradients_of(both_along(x), x, w_, false), weighted(7), 1e-7);
    }
  }

  /// One input alone differentiable, one result alone differentiated.
  void parts(const Function& f) {
    for (size_t i = 0; i < x_.size() && x_.size() > 1; ++i) {
      const std::string how = fmt::format("with tensor {} alone differentiable, ", i);
      Tensors x = x_, only(x_.size());
      x[i] = leaf(x_[i]);
      const Tensors g = gradients_of(f(x), {x[i]}, w_, false);
      compare(how + "reverse mode", g, {weighted(4).at(i)}, 1e-9);
      only[i] = u_[i];
      compare(how + "forward mode", jvp(f, x_, only).second, along_input(i), 1e-9);
    }
    for (size_t k = 0; k < w_.size() && w_.size() > 1; ++k) {
      const Tensors x = variables();
      const Tensors y = f(x);
      const Tensors g = gradients_of({y[k]}, x, {w_[k]}, false);
      compare(fmt::format("with the gradient of result {} alone, reverse mode", k), g, weighted(4, static_cast<int>(k)), 1e-9);
    }
  }

  /// Differences along u: of the values, and of the gradient.
  void differences(const Function& f) {
    check_differences("differences of the value", f, along(1));
    check_differences(
        "differences of the gradient", [&](const Tensors& x) { return vjp(f, x, w_).second; }, weighted(5));
  }

 private:
  using Lists = std::vector<std::vector<Real>>;

  static Tensor leaf(const Tensor& tensor) {
    const std::vector<double> values = tensor.to_vector();
    const Tensor copy = tensor_of(Sizes(tensor.sizes().begin(), tensor.sizes().end()), [&](size_t i) { return values[i]; });
    copy.requires_grad_();
    return copy;
  }
  static Tensors leaves(const Tensors& tensors) {
    Tensors copies;
    for (const Tensor& tensor : tensors) copies.push_back(leaf(tensor));
    return copies;
  }
  Tensors variables() const { return leaves(x_); }

  /// Gradients of <outputs, cotangents>; of those that depend on nothing none.
  static Tensors gradients_of(const Tensors& outputs, const Tensors& inputs, const Tensors& cotangents, bool again) {
    Tensors roots, weights;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !autograd::requires_grad(outputs[i])) continue;
      roots.push_back(outputs[i]);
      weights.push_back(cotangents[i]);
    }
    if (roots.empty()) return Tensors(inputs.size());
    return grad(roots, inputs, {.grad_outputs = weights, .create_graph = again, .allow_unused = true});
  }

  /// A part of the results.
  Lists along(size_t part) const {
    Lists lists;
    for (const Array& result : expected_.results) {
      lists.emplace_back();
      for (const Jet& element : result.elements) lists.back().push_back(element.part[part]);
    }
    return lists;
  }

  /// For each element of the inputs, the sum over the results (or that of one) of the cotangent times the part.
  Lists weighted(size_t part, int result = -1) const {
    Lists lists;
    size_t next = 0;
    for (const Tensor& x : x_) {
      lists.emplace_back();
      for (int64_t i = 0; i < x.numel(); ++i, ++next) {
        Real sum = 0;
        for (size_t k = 0; k < w_.size(); ++k) {
          if (result >= 0 && static_cast<size_t>(result) != k) continue;
          const double* const w = w_[k].data<double>();
          for (size_t e = 0; e < expected_.by[next][k].size(); ++e)
            sum += static_cast<Real>(w[e]) * expected_.by[next][k][e].part[part];
        }
        lists.back().push_back(sum);
      }
    }
    return lists;
  }

  /// The derivative along the part of u that belongs to one input.
  Lists along_input(size_t input) const {
    Lists lists = along(0);
    for (std::vector<Real>& list : lists) list.assign(list.size(), 0);
    size_t next = 0;
    for (size_t i = 0; i < x_.size(); ++i) {
      for (int64_t j = 0; j < x_[i].numel(); ++j, ++next) {
        if (i != input) continue;
        const auto u = static_cast<Real>(u_[i].data<double>()[j]);
        for (size_t k = 0; k < lists.size(); ++k) {
          for (size_t e = 0; e < lists[k].size(); ++e) lists[k][e] += u * expected_.by[next][k][e].part[4];
        }
      }
    }
    return lists;
  }

  void compare(const std::string& what, const Tensors& got, const Lists& expected, double tolerance) const {
    if (got.size() != expected.size()) throw Difference(fmt::format("{}: {} tensors, not {}", what, got.size(), expected.size()));
    for (size_t i = 0; i < got.size(); ++i) {
      const std::vector<double> values = got[i].defined() ? got[i].to_vector() : std::vector<double>(expected[i].size(), 0);
      if (values.size() != expected[i].size())
        throw Difference(
            fmt::format("{}: tensor {} has shape {}, not {} elements", what, i, to_string(got[i].sizes()), expected[i].size()));
      for (size_t e = 0; e < values.size(); ++e) {
        const Real allowed = static_cast<Real>(tolerance) * (expected_.largest + std::abs(expected[i][e]));
        if (!(std::abs(values[e] - expected[i][e]) <= allowed))
          throw Difference(fmt::format("{} of tensor {}, element {} is {:.10g}; the interpreter says {:.10g}", what, i, e,
                                       values[e], static_cast<double>(expected[i][e])));
      }
    }
  }

  void check_differences(const std::string& what, const Function& f, const Lists& expected) const {
    const NoGrad quiet;
    const auto at = [&](double step) {
      Tensors points;
      for (size_t i = 0; i < x_.size(); ++i)
        points.push_back(tensor_of(Sizes(x_[i].sizes().begin(), x_[i].sizes().end()),
                                   [&](size_t e) { return x_[i].data<double>()[e] + step * u_[i].data<double>()[e]; }));
      std::vector<std::vector<double>> lists;
      for (const Tensor& y : f(points)) lists.push_back(y.to_vector());
      return lists;
    };
    const double h = 1e-4;
    const auto up = at(h), down = at(-h), half_up = at(h / 2), half_down = at(-h / 2);
    for (size_t i = 0; i < up.size(); ++i) {
      for (size_t e = 0; e < up[i].size(); ++e) {
        const double coarse = (up[i][e] - down[i][e]) / (2 * h), fine = (half_up[i][e] - half_down[i][e]) / h;
        const double best = (4 * fine - coarse) / 3;
        const double allowed = std::abs(coarse - fine) + 1e-9 * static_cast<double>(expected_.largest) / h * 1e-2 + 1e-6;
        if (!(std::abs(best - static_cast<double>(expected[i][e])) <= allowed))
          throw Difference(fmt::format("{} of tensor {}, element {} are {:.8g}; the interpreter says {:.8g} (allowed {:.1g})",
                                       what, i, e, best, static_cast<double>(expected[i][e]), allowed));
      }
    }
  }

  Expected expected_;
  Tensors x_, u_, v_, w_;
};

/// In place with self as the other operand too: as an entry that has one argument less.
void check_with_itself(const Case& compiled, const Entry& entry, const Entries& others, Engine& engine) {
  for (size_t k = 1; k < entry.arguments.size(); ++k) {
    const Argument& argument = entry.arguments[k];
    if (argument.kind != Argument::Kind::tensor || argument.sizes != entry.arguments[0].sizes) continue;
    Entry one = entry;
    one.arguments.erase(one.arguments.begin() + static_cast<std::ptrdiff_t>(k));
    const auto renamed = [&](ExprPtr& tree) { tree = replace(tree, name(argument.name), name("self")); };
    for (auto& [let, tree] : one.lets) renamed(tree);
    for (ExprPtr& body : one.bodies) renamed(body);
    const std::vector<Array> point = draw_point(engine, one, others);
    if (point.empty()) continue;
    const Function inplace = [&](const Tensors& x) {
      Tensors tensors = x;
      tensors[0] = mul(x[0], 1.0);
      tensors.insert(tensors.begin() + static_cast<std::ptrdiff_t>(k), tensors[0]);
      return Tensors{compiled.inplace(tensors)[0]};
    };
    Check(one, others, point, engine).derivatives(inplace, "in place with self as " + argument.name + ", ", false);
  }
}

}  // namespace

std::string check_case(const Case& compiled, const Entry& entry, const Entries& others, Engine& engine) {
  try {
    for (int round = 0; round < 2; ++round) {
      const std::vector<Array> point = draw_point(engine, entry, others);
      if (point.empty()) return "";  // only entries that the shrinker made have no good points
      Check check(entry, others, point, engine);
      const Function function = compiled.function;
      check.values(function, "");
      check.derivatives(function, "", round == 0);
      check.parts(function);
      check.differences(function);
      if (compiled.inplace != nullptr) {
        const Function inplace = [&](const Tensors& x) {
          Tensors tensors = x;
          tensors[0] = mul(x[0], 1.0);
          return Tensors{compiled.inplace(tensors)[0]};
        };
        check.derivatives(inplace, "in place, ", false);
        // The middle of a base of three columns; of the sum of all what the others put in is taken away again.
        const Function on_view = [&](const Tensors& x) {
          Tensors tensors = x;
          const Tensor base = stack({x[0], x[0], mul(x[0], 2.0)}, -1);
          tensors[0] = select(base, -1, 1);
          (void)compiled.inplace(tensors);
          return Tensors{sub(sum(base, -1), mul(x[0], 3.0))};
        };
        check.derivatives(on_view, "in place on a view, ", false);
        if (round == 1) check_with_itself(compiled, entry, others, engine);
      }
      if (round == 1) {
        const Function strided = [&](const Tensors& x) {
          Tensors tensors;
          for (const Tensor& each : x)
            tensors.push_back(each.dim() < 2 ? each : transpose(contiguous(transpose(each, 0, 1)), 0, 1));
          return function(tensors);
        };
        check.derivatives(strided, "of columns, ", false);
      }
      if (compiled.out != nullptr) {
        const Function out = [&](const Tensors& x) {
          const NoGrad quiet;
          Tensors tensors = x;
          tensors.push_back(empty(function(x)[0].sizes(), DType::float64));
          return compiled.out(tensors);
        };
        check.values(out, "with an out argument, ");
      }
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace deckle::random_entries
