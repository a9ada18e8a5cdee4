#include "tests/ops/semantic_suite.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "deckle/autograd/history.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/semantic_cells.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

bool floating(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

Tensor of_values(Ints sizes, DType dtype, const std::function<double(size_t)>& value) {
  const Tensor result = empty(sizes, dtype, {});
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(result.raw_data());
    for (int64_t i = 0; i < result.numel(); ++i) data[i] = static_cast<T>(value(static_cast<size_t>(i)));
  });
  return result;
}

Tensors random_like(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(testing::random_tensor(tensor.sizes(), tensor.dtype()));
  return result;
}

Tensors ones_like_each(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(of_values(tensor.sizes(), tensor.dtype(), [](size_t) { return 1.0; }));
  return result;
}

/// Only the one at `index`, the others undefined.
Tensors only(const Tensors& tensors, size_t index) {
  Tensors result(tensors.size());
  result[index] = tensors[index];
  return result;
}

/// The tensors that derivatives are taken for.
Tensors differentiable(const Case& op) {
  Tensors result;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.differentiable[i]) result.push_back(op.tensors[i]);
  }
  return result;
}

Tensors with(const Case& op, const Tensors& inputs) {
  Tensors all = op.tensors;
  for (size_t i = 0, next = 0; i < all.size(); ++i) {
    if (op.differentiable[i]) all[i] = inputs[next++];
  }
  return all;
}

/// The call; an op that writes its arguments gets copies of them, which carry history and tangents.
Tensors called(const Case& op, Tensors tensors) {
  if (op.writes) {
    for (Tensor& tensor : tensors) {
      if (tensor.defined()) tensor = clone(tensor);
    }
  }
  return op.call(tensors);
}

Tensors floating_only(Tensors results) {
  std::erase_if(results, [](const Tensor& result) { return !floating(result); });
  return results;
}

/// The op as a function of its differentiable inputs.
Function function_of(const Case& op) {
  return [&op](const Tensors& inputs) { return floating_only(called(op, with(op, inputs))); };
}

/// Values at which everything is defined, in the same shape.
Tensor positive(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector();
  return of_values(tensor.sizes(), tensor.dtype(), [&](size_t i) { return std::abs(values[i]) + 0.25; });
}

/// Equal to `tolerance` where finite; the same infinities and NaN.
void expect_same(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  if (!got.defined() && !expected.defined()) return;
  ASSERT_TRUE(got.defined() && expected.defined()) << what;
  expect_near(got, expected, tolerance, what);
}

void expect_same(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    expect_same(got[i], expected[i], tolerance, fmt::format("{}, tensor {}", what, i));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Sum of products, 0 for undefined tensors.
double dot(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined()) continue;
    const std::vector<double> x = a[i].to_vector(), y = b[i].to_vector();
    for (size_t k = 0; k < x.size(); ++k) sum += x[k] * y[k];
  }
  return sum;
}

/// Everything that the modes say of f at x, along cotangents c and tangents t and u.
struct Derivatives {
  Tensors value, reverse, forward, reverse_reverse, forward_reverse, reverse_forward, forward_forward;
};

Derivatives derivatives_of(const Function& f, const Tensors& x, const Tensors& c, const Tensors& t, const Tensors& u) {
  const auto gradient = [&](const Tensors& at) { return vjp(f, at, c).second; };
  const auto slope = [&](const Tensors& at) { return jvp(f, at, u).second; };
  return {f(x),
          gradient(x),
          jvp(f, x, t).second,
          vjp(gradient, x, u).second,
          jvp(gradient, x, u).second,
          vjp(slope, x, c).second,
          jvp(slope, x, t).second};
}

Derivatives derivatives_of(const Function& f, const Tensors& x) {
  const Tensors like = f(x);
  return derivatives_of(f, x, random_like(like), random_like(x), random_like(x));
}

/// The modes against each other; with infinities or NaN about, sums say nothing.
void expect_consistent(const Derivatives& d, const Tensors& c, const Tensors& t, double tolerance, const std::string& what) {
  expect_same(d.forward_reverse, d.reverse_reverse, tolerance, "forward over reverse and reverse over reverse" + what);
  expect_same(d.reverse_forward, d.reverse_reverse, tolerance, "reverse over forward and reverse over reverse" + what);
  const auto expect_dots = [&](const Tensors& a, const Tensors& b, const Tensors& p, const Tensors& q, const std::string& modes) {
    const double left = dot(a, b), right = dot(p, q);
    if (!std::isfinite(left) || !std::isfinite(right)) return;
    double scale = 1;
    for (const Tensors* tensors : {&a, &p}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.defined()) scale += std::sqrt(dot({tensor}, {tensor}));
      }
    }
    EXPECT_NEAR(left, right, tolerance * scale) << modes << what;
  };
  expect_dots(d.forward, c, d.reverse, t, "forward mode and reverse mode");
  expect_dots(d.forward_forward, c, d.reverse_reverse, t, "forward over forward and reverse over reverse");
}

void expect_equal(const Derivatives& got, const Derivatives& expected, double tolerance, const std::string& what) {
  expect_same(got.value, expected.value, tolerance, "the value" + what);
  expect_same(got.reverse, expected.reverse, tolerance, "reverse mode" + what);
  expect_same(got.forward, expected.forward, tolerance, "forward mode" + what);
  expect_same(got.reverse_reverse, expected.reverse_reverse, tolerance, "reverse over reverse" + what);
  expect_same(got.forward_reverse, expected.forward_reverse, tolerance, "forward over reverse" + what);
  expect_same(got.reverse_forward, expected.reverse_forward, tolerance, "reverse over forward" + what);
  expect_same(got.forward_forward, expected.forward_forward, tolerance, "forward over forward" + what);
}

/// f and g, which are the same function, have the same derivatives at x.
void expect_alike(const Function& f, const Function& g, const Tensors& x, const std::string& what) {
  const Tensors c = random_like(g(x)), t = random_like(x), u = random_like(x);
  expect_equal(derivatives_of(f, x, c, t, u), derivatives_of(g, x, c, t, u), 1e-9, what);
}

// Cells.

void check_identity(const Case& op) {
  struct Before {
    std::shared_ptr<Storage> storage;
    uint64_t version;
    std::string sizes;
  };
  Tensors inputs = op.tensors;
  for (Tensor& input : inputs) {
    if (op.writes && input.defined()) input = clone(input);
  }
  std::vector<Before> before;
  for (const Tensor& input : inputs)
    before.push_back(input.defined() ? Before{input.storage(), input.version(), to_string(input.sizes())} : Before{});
  const Tensors results = op.call(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    EXPECT_EQ(inputs[i].storage(), before[i].storage) << "input " << i << " has other memory after the call";
    EXPECT_EQ(to_string(inputs[i].sizes()), before[i].sizes) << "input " << i;
    if (!op.writes) {
      EXPECT_EQ(inputs[i].version(), before[i].version) << "input " << i << " was written";
    }
    EXPECT_FALSE(inputs[i].requires_grad()) << "input " << i << " got history";
  }
  if (op.writes && !results.empty()) {
    EXPECT_GT(inputs[0].version(), before[0].version);
  }
  compared(op, Cell::identity);
  if (op.writes) return;
  for (const Tensor& result : results) {
    if (!result.defined()) continue;
    bool shared = false, known = false;
    for (const Tensor& input : inputs) {
      if (!input.defined() || input.storage() != result.storage()) continue;
      shared = true;
      known = known || result.is_same(input) || autograd::base_of(result).is_same(autograd::base_of(input));
    }
    if (op.view) {
      EXPECT_TRUE(shared) << "a view has memory of its own";
    }
    if (shared && !exempt(op, Cell::aliasing)) {
      EXPECT_TRUE(known) << "a result lies in an input's memory and is neither that input nor marked as a view of it";
    }
  }
  compared(op, Cell::aliasing);
}

void check_modes(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.empty()) return;
  const Tensors c = random_like(like), t = random_like(x), u = random_like(x);
  expect_consistent(derivatives_of(f, x, c, t, u), c, t, 1e-8, "");
  compared(op, Cell::modes);
}

/// Points where formulas change: zeros, units, integers, what samples take for bounds, equal values, infinities.
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPoints[] = {0, 1, -1, 2, -2, 3, 0.5, -0.5, 0.75, kInfinity, -kInfinity};

/// Element by element; says at which point the first difference is.
void expect_points(const Case& op, const Tensors& points, const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(got.defined() && expected.defined()) << what;
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::abs(a[i] - b[i]) <= 1e-9 * std::max(1.0, std::abs(b[i]))) continue;
    std::vector<double> point;
    for (const Tensor& values : points) point.push_back(values.to_vector()[i]);
    if (outside_domain(op, point)) continue;
    std::string at;
    for (const double value : point) at += fmt::format(" {}", value);
    FAIL() << what << ": " << a[i] << " and " << b[i] << " at" << at;
  }
}

/// Element by element, and each pair of inputs by itself: infinities stay where they arise.
void check_pointwise_points(const Case& op) {
  const Tensors x = differentiable(op);
  constexpr size_t count = std::size(kPoints);
  size_t total = 1;
  for (size_t i = 0; i < x.size(); ++i) total *= count;
  if (x.size() > 3) return;
  Case at = op;
  for (size_t i = 0, stride = 1; i < op.tensors.size(); ++i) {
    if (op.differentiable[i]) {
      at.tensors[i] =
          of_values({static_cast<int64_t>(total)}, DType::float64, [&](size_t k) { return kPoints[k / stride % count]; });
      stride *= count;
    } else if (op.tensors[i].defined()) {  // conditions, and whatever else: the sample's values over and over
      const std::vector<double> values = op.tensors[i].to_vector();
      if (values.empty()) return;
      at.tensors[i] =
          of_values({static_cast<int64_t>(total)}, op.tensors[i].dtype(), [&](size_t k) { return values[k % values.size()]; });
    }
  }
  const Function f = function_of(at);
  const Tensors points = differentiable(at), like = f(points);
  if (like.empty()) return;
  const Tensors ones = ones_like_each(points), c = ones_like_each(like);
  const auto where_at = [&](const std::string& what) { return what + " at special points"; };
  const auto gradient = [&](const Tensors& p) { return vjp(f, p, c).second; };
  const Tensors reverse = gradient(points);
  for (size_t k = 0; k < points.size(); ++k) {
    const Tensors along = only(ones, k);
    expect_points(op, points, jvp(f, points, along).second[0], reverse[k],
                  where_at(fmt::format("forward and reverse mode, input {}", k)));
    const auto slope = [&](const Tensors& p) { return jvp(f, p, along).second; };
    const Tensors rr = vjp(gradient, points, along).second, rf = vjp(slope, points, c).second,
                  fr = jvp(gradient, points, along).second;
    for (size_t l = 0; l < points.size(); ++l) {
      const std::string inputs = fmt::format(", inputs {} and {}", k, l);
      const Tensor ff = jvp(slope, points, only(ones, l)).second[0];
      expect_points(op, points, fr[l], rr[l], where_at("forward over reverse and reverse over reverse" + inputs));
      expect_points(op, points, rf[l], rr[l], where_at("reverse over forward and reverse over reverse" + inputs));
      expect_points(op, points, ff, rr[l], where_at("forward over forward and reverse over reverse" + inputs));
    }
  }
  compared(op, Cell::special_points);
}

/// All zero, all one, all equal, small integers with ties: along random directions.
void check_tensor_points(const Case& op) {
  const std::pair<const char*, std::function<double(size_t)>> fills[] = {
      {"zeros", [](size_t) { return 0.0; }},
      {"ones", [](size_t) { return 1.0; }},
      {"equal values", [](size_t) { return -0.75; }},
      {"ties", [](size_t i) { return static_cast<double>(i * 7 % 3) - 1; }},
  };
  bool any = false;
  std::string refused;
  for (const auto& [name, fill] : fills) {
    Case at = op;
    for (size_t i = 0; i < op.tensors.size(); ++i) {
      if (op.differentiable[i]) at.tensors[i] = of_values(op.tensors[i].sizes(), op.tensors[i].dtype(), fill);
    }
    const Function f = function_of(at);
    const Tensors x = differentiable(at);
    Tensors like;
    try {
      like = f(x);
    } catch (const Error& error) {  // such values are outside the op's domain
      refused = error.message();
      continue;
    }
    if (like.empty()) return;
    const Tensors c = random_like(like), t = random_like(x), u = random_like(x);
    expect_consistent(derivatives_of(f, x, c, t, u), c, t, 1e-8, std::string(" at ") + name);
    any = true;
  }
  any ? compared(op, Cell::special_points) : refused_by_op(op, Cell::special_points, refused);
}

void check_special_points(const Case& op) {
  if (exempt(op, Cell::special_points)) return;
  op.pointwise ? check_pointwise_points(op) : check_tensor_points(op);
}

void check_each_output(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.size() < 2) return;
  const Tensors c = random_like(like);
  const Tensors all = vjp(f, x, c).second;
  Tensors sum;
  for (size_t o = 0; o < like.size(); ++o) {
    const Tensors one = vjp(f, x, only(c, o)).second;
    for (size_t i = 0; i < one.size(); ++i) o == 0 ? sum.push_back(one[i]) : void(sum[i] = add(sum[i], one[i]));
  }
  expect_same(sum, all, 1e-9, "the gradients of each output, summed");
  compared(op, Cell::each_output);
}

void check_each_input(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.empty()) return;
  const Tensors c = random_like(like), t = random_like(x);
  const Tensors all = vjp(f, x, c).second, forward = jvp(f, x, t).second;
  Tensors sum;
  for (size_t i = 0; i < x.size(); ++i) {
    const Function alone = [&](const Tensors& one) {
      Tensors inputs = x;
      inputs[i] = one[0];
      return f(inputs);
    };
    expect_same(vjp(alone, Tensors{x[i]}, c).second[0], all[i], 1e-9, fmt::format("the gradient of input {} alone", i));
    const Tensors part = jvp(f, x, only(t, i)).second;
    for (size_t o = 0; o < part.size(); ++o) i == 0 ? sum.push_back(part[o]) : void(sum[o] = add(sum[o], part[o]));
  }
  expect_same(sum, forward, 1e-9, "the tangents along each input, summed");
  compared(op, Cell::each_input);
}

void check_constant_inputs(const Case& op) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.differentiable[i] || !op.tensors[i].defined() || op.tensors[i].dtype() != DType::float64) continue;
    if (exempt(op, Cell::constant_inputs)) continue;
    const auto at = [&](double step) {
      Tensors tensors = op.tensors;
      const std::vector<double> values = tensors[i].to_vector();
      tensors[i] = of_values(tensors[i].sizes(), DType::float64, [&](size_t k) { return values[k] * (1 + step) + step; });
      return floating_only(called(op, tensors));
    };
    Tensors above, below;
    try {
      above = at(1e-6);
      below = at(-1e-6);
    } catch (const Error& error) {
      refused_by_op(op, Cell::constant_inputs, error.message());
      continue;
    }
    expect_same(above, below, 1e-12,
                fmt::format("tensor {} has no derivative, says the entry, and the results change with it: they", i));
    compared(op, Cell::constant_inputs);
  }
}

/// Places j > i of inputs that could be the same tensor.
template <typename Check>
void for_pairs(const Case& op, const Check& check) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    for (size_t j = i + 1; j < op.tensors.size(); ++j) {
      const bool alike = floating(op.tensors[i]) && floating(op.tensors[j]) && op.tensors[i].sizes() == op.tensors[j].sizes() &&
                         op.tensors[i].dtype() == op.tensors[j].dtype() && op.differentiable[i] && op.differentiable[j];
      if (alike) check(i, j);
    }
  }
}

void check_aliased_inputs(const Case& op) {
  for_pairs(op, [&](size_t i, size_t j) {
    const auto place = [&op, i, j](const Tensor& a, const Tensor& b) {
      Tensors tensors = op.tensors;
      tensors[i] = a;
      tensors[j] = b;
      return floating_only(called(op, tensors));
    };
    const Tensor x = positive(op.tensors[i]);
    try {
      place(x, x);
    } catch (const Error& error) {
      refused_by_op(op, Cell::aliased_inputs, error.message());
      return;
    }
    expect_alike([&](const Tensors& v) { return place(v[0], v[0]); }, [&](const Tensors& v) { return place(v[0], clone(v[0])); },
                 {x}, fmt::format(" with one tensor as inputs {} and {}", i, j));
    compared(op, Cell::aliased_inputs);
  });
}

void check_mixed_dtypes(const Case& op) {
  const auto check_form = [&](const Function& f, const Tensors& x, const std::string& what) {
    const Tensors like = f(x), c = random_like(like), t = random_like(x);
    const Tensors forward = jvp(f, x, t).second, reverse = vjp(f, x, c).second;
    const Function gradient = [&](const Tensors& at) { return vjp(f, at, c).second; };
    const Tensors second = jvp(gradient, x, t).second;
    for (size_t o = 0; o < like.size(); ++o) EXPECT_EQ(name(forward[o].dtype()), name(like[o].dtype())) << "a tangent" << what;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(name(reverse[i].dtype()), name(x[i].dtype())) << "a gradient" << what;
      EXPECT_EQ(name(second[i].dtype()), name(x[i].dtype())) << "the tangent of a gradient" << what;
    }
  };
  const Tensors inputs = differentiable(op);
  size_t floats = 0;
  for (const Tensor& tensor : op.tensors) floats += floating(tensor);
  if (floats < 2) return;
  for (size_t narrow = 0; narrow < inputs.size(); ++narrow) {
    Tensors x = inputs;
    x[narrow] = to(x[narrow], DType::float32);
    const std::string what = fmt::format(" with input {} in float32 and the others in float64", narrow);
    try {
      function_of(op)(x);
    } catch (const Error& error) {
      refused_by_op(op, Cell::mixed_dtypes, error.message());
      continue;
    }
    check_form(function_of(op), x, what);
    if (op.inplace && op.differentiable[0]) {
      const Function inplace = [&op](const Tensors& v) {
        Tensors tensors = with(op, v);
        tensors[0] = clone(tensors[0]);
        op.inplace(tensors);
        return Tensors{tensors[0]};
      };
      check_form(inplace, x, what + " in place");
    }
    compared(op, Cell::mixed_dtypes);
  }
}

/// In place on a tensor with history, and on a part of one: what the functional form says.
void check_inplace(const Case& op) {
  if (!op.inplace || !floating(op.tensors[0])) return;
  Tensors x = differentiable(op);
  const bool self_wants = op.differentiable[0];
  if (!self_wants) x.insert(x.begin(), op.tensors[0]);
  const auto tensors_of = [&op, self_wants](const Tensors& v) {
    if (self_wants) return with(op, v);
    Tensors tensors = with(op, Tensors(v.begin() + 1, v.end()));
    tensors[0] = v[0];
    return tensors;
  };
  const Function functional = [&](const Tensors& v) {
    const Tensors results = op.call(tensors_of(v));
    return Tensors{to(results[0], op.tensors[0].dtype())};
  };
  const Function inplace = [&](const Tensors& v) {
    Tensors tensors = tensors_of(v);
    tensors[0] = clone(tensors[0]);
    op.inplace(tensors);
    return Tensors{tensors[0]};
  };
  expect_alike(inplace, functional, x, " in place");
  compared(op, Cell::inplace);
  const auto whole_of = [](const Tensor& part) {
    Dims sizes(part.sizes());
    sizes.push_back(3);
    return expand(unsqueeze(part, -1), sizes) * 1.0;
  };
  const Function on_view = [&](const Tensors& v) {
    Tensors tensors = tensors_of(v);
    const Tensor whole = whole_of(tensors[0]);
    const Tensor before = select(whole, -1, 1);
    tensors[0] = select(whole, -1, 1);
    op.inplace(tensors);
    return Tensors{whole, before * 1.0};
  };
  const Function beside = [&](const Tensors& v) {
    const Tensor result = functional(v)[0], start = tensors_of(v)[0];
    return Tensors{stack({start, result, start}, -1), result};
  };
  expect_alike(on_view, beside, x, " in place on a view");
  compared(op, Cell::inplace_view);
}

void check_inplace_operands(const Case& op) {
  if (!op.inplace) return;
  for_pairs(op, [&](size_t i, size_t j) {
    if (i != 0) return;
    const auto place = [&op, j](const Tensor& a, const Tensor& b) {
      Tensors tensors = op.tensors;
      tensors[0] = a;
      tensors[j] = b;
      return tensors;
    };
    const Function inplace = [&](const Tensors& v) {
      const Tensor own = clone(v[0]);
      op.inplace(place(own, own));
      return Tensors{own};
    };
    const Function functional = [&](const Tensors& v) { return op.call(place(v[0], v[0])); };
    const Tensor x = positive(op.tensors[0]);
    expect_alike(inplace, functional, {x}, fmt::format(" in place with itself as operand {}", j));
    compared(op, Cell::inplace_self);

    if (x.dim() == 0 || x.numel() == 0) return;
    // self is all rows but the last of a base, the operand all but the first.
    Dims sizes(x.sizes());
    const int64_t rows = sizes[0]++;
    const Tensor base = positive(testing::random_tensor(sizes));
    const Function shifted = [&](const Tensors& v) {
      const Tensor whole = clone(v[0]);
      op.inplace(place(slice(whole, 0, 0, rows), slice(whole, 0, 1, rows + 1)));
      return Tensors{whole};
    };
    const Function apart = [&](const Tensors& v) {
      const Tensor result = op.call(place(slice(v[0], 0, 0, rows), slice(v[0], 0, 1, rows + 1)))[0];
      return Tensors{cat({result, slice(v[0], 0, rows, rows + 1)}, 0)};
    };
    expect_alike(shifted, apart, {base}, fmt::format(" in place with an overlapping view as operand {}", j));
    compared(op, Cell::inplace_overlap);
  });
}

void check_out_refuses(const Case& op) {
  if (!op.out || !op.derivatives) return;
  const Tensor like = called(op, op.tensors)[0];
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (!op.differentiable[i]) continue;
    const Tensor target = empty(like.sizes(), like.dtype(), {});
    Tensors tensors = op.tensors;
    tensors[i] = tensors[i].detach().requires_grad_();
    std::string message;
    const auto call_out = [&] {
      try {
        op.out(tensors, target);
        message = "no error";
      } catch (const Error& error) {
        message = error.message();
      }
    };
    call_out();
    EXPECT_NE(message.find("not differentiable"), std::string::npos) << message;
    {
      const NoGrad quiet;
      call_out();
      EXPECT_EQ(message, "no error");
    }
    jvp(
        [&](const Tensors& v) {
          tensors[i] = v[0];
          call_out();
          return v;
        },
        Tensors{op.tensors[i]}, Tensors{ones_like_each({op.tensors[i]})});
    EXPECT_NE(message.find("not differentiable"), std::string::npos) << message;
    compared(op, Cell::out_refuses);
  }
}

void check_linear(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), y = random_like(x);
  Tensors sum, expected;
  for (size_t i = 0; i < x.size(); ++i) sum.push_back(x[i] * 2.0 - y[i] * 0.75);
  const Tensors at_x = f(x), at_y = f(y);
  for (size_t o = 0; o < at_x.size(); ++o) expected.push_back(at_x[o] * 2.0 - at_y[o] * 0.75);
  expect_same(f(sum), expected, 1e-11, "f(2 x - 0.75 y) and 2 f(x) - 0.75 f(y) of an op said to be linear");
  compared(op, Cell::linear);
}

void check_element_wise(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op);
  ASSERT_EQ(x.size(), 1U);
  const Tensor before = f(x)[0];
  ASSERT_EQ(to_string(before.sizes()), to_string(x[0].sizes())) << "an op said to be element-wise";
  const std::vector<double> expected = before.to_vector(), values = x[0].to_vector();
  for (size_t at = 0; at < values.size(); at += 1 + values.size() / 7) {
    const Tensor moved =
        of_values(x[0].sizes(), x[0].dtype(), [&](size_t i) { return i == at ? values[i] * 1.01 + 0.01 : values[i]; });
    const std::vector<double> after = f({moved})[0].to_vector();
    for (size_t i = 0; i < after.size(); ++i) {
      if (i == at || after[i] == expected[i] || std::isnan(expected[i])) continue;
      FAIL() << "element " << i << " of the result depends on element " << at << " of an input said to act element by element";
    }
  }
  compared(op, Cell::element_wise);
}

}  // namespace

void check_semantics(const Case& op) {
  const auto cell = [&](Cell which, const auto& check) {
    try {
      check(op);
    } catch (const Error& error) {
      ADD_FAILURE() << cell_name(which) << ": " << error.message();
    }
  };
  const bool repeatable = op.layouts;  // random ops draw anew at each call
  cell(Cell::identity, check_identity);
  if (repeatable) cell(Cell::constant_inputs, check_constant_inputs);
  cell(Cell::out_refuses, check_out_refuses);
  if (op.derivatives) {
    cell(Cell::modes, check_modes);
    cell(Cell::special_points, check_special_points);
    cell(Cell::each_output, check_each_output);
    cell(Cell::each_input, check_each_input);
    cell(Cell::aliased_inputs, check_aliased_inputs);
    cell(Cell::mixed_dtypes, check_mixed_dtypes);
  }
  if (op.linear) cell(Cell::linear, check_linear);
  if (op.element_wise) cell(Cell::element_wise, check_element_wise);
  cell(Cell::inplace, check_inplace);
  if (op.derivatives) cell(Cell::inplace_self, check_inplace_operands);
}

}  // namespace deckle::suite
