#include "tests/ops/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/core/tensor_impl.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/accuracy.h"
#include "tests/ops/semantic_suite.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

using Tensors = std::vector<Tensor>;

Tensor filled(Ints sizes, DType dtype, const std::function<double(size_t)>& value) {
  const Tensor result = empty(sizes, dtype, {});
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(result.raw_data());
    for (int64_t i = 0; i < result.numel(); ++i) data[i] = static_cast<T>(value(static_cast<size_t>(i)));
  });
  return result;
}

Tensor converted(const Tensor& tensor, DType dtype) {
  const std::vector<double> values = tensor.to_vector();
  return filled(tensor.sizes(), dtype, [&](size_t i) { return values[i]; });
}

Tensor copy_of(const Tensor& tensor) { return converted(tensor, tensor.dtype()); }

/// The same values with dims in column-major order and a gap after every element.
Tensor strided(const Tensor& tensor) {
  if (tensor.numel() == 0) return tensor;
  const Tensor memory = filled({2 * tensor.numel() + 1}, tensor.dtype(), [](size_t) { return 77; });
  Dims strides;
  int64_t stride = 2;
  for (const int64_t size : tensor.sizes()) {
    strides.push_back(stride);
    stride *= size;
  }
  const Tensor result = alias(memory, tensor.sizes(), strides, 1);
  native::copy_(result, tensor);
  return result;
}

/// |got - expected| <= tolerance max(1, max |expected|), element by element, whatever the dtypes are.
void expect_values(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_TRUE(got.defined() && expected.defined()) << what;
  ASSERT_EQ(to_string(got.sizes()), to_string(expected.sizes())) << what;
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  double scale = 1;
  for (const double value : b) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  const double bound = is_floating(expected.dtype()) ? tolerance * scale : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), bound) << what << ": element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

}  // namespace

void expect_near(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  expect_values(got, expected, tolerance, what);
  EXPECT_EQ(name(got.dtype()), name(expected.dtype())) << what;
}

void expect_near(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], tolerance, what);
}

namespace {

Tensors mapped(const Tensors& tensors, const std::function<Tensor(const Tensor&)>& f) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.defined() ? f(tensor) : tensor);
  return result;
}

/// The call; an op that writes arguments gets copies of them.
Tensors call(const Case& op, const Tensors& tensors) {
  return op.call(op.writes ? mapped(tensors, [](const Tensor& tensor) { return clone(tensor); }) : tensors);
}

/// A pointwise op against its expression in plain C++, one element after the other.
void check_reference(const Case& op, const Tensors& tensors, const Tensors& results) {
  if (!op.reference) return;
  const Tensor& got = results[0];
  std::vector<std::vector<double>> columns;
  for (const Tensor& tensor : tensors) columns.push_back(native::expand(tensor, got.sizes()).to_vector());
  const Tensor expected = filled(got.sizes(), got.dtype(), [&](size_t i) {
    std::vector<double> x;
    for (const std::vector<double>& column : columns) x.push_back(column[i]);
    return op.reference(x);
  });
  expect_near(got, expected, 1e-13, "against the reference");
}

void check_layouts(const Case& op, const Tensors& expected) {
  expect_near(call(op, mapped(op.tensors, strided)), expected, 1e-12, "strided inputs");
  if (op.writes && !op.tensors.empty()) {
    Tensors own = mapped(op.tensors, strided);
    expect_near(op.call(own), expected, 1e-12, "writing through strides");
  }
}

void check_variants(const Case& op, const Tensors& expected) {
  if (op.inplace) {
    for (const bool through_strides : {false, true}) {
      Tensors own = op.tensors;
      own[0] = through_strides ? strided(own[0]) : copy_of(own[0]);
      const uint64_t version = own[0].version();
      op.inplace(own);
      expect_near(own[0], converted(expected[0], own[0].dtype()), 1e-12, "in place");
      EXPECT_GT(own[0].version(), version) << "an in-place write must count as one";
    }
  }
  if (op.out) {
    const Tensor out = filled(expected[0].sizes(), expected[0].dtype(), [](size_t) { return 77; });
    op.out(op.tensors, out);
    expect_near(out, expected[0], 1e-12, "out=");
    const Tensor gaps = strided(filled(expected[0].sizes(), expected[0].dtype(), [](size_t) { return 77; }));
    op.out(op.tensors, gaps);
    expect_near(gaps, expected[0], 1e-12, "strided out=");
  }
}

/// Inputs that bfloat16 and float16 both hold exactly, so that only the op's own rounding remains.
double representable(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -10) - 6);
  return std::round(value / unit) * unit;
}

void check_dtypes(const Case& op) {
  const Tensors exact = mapped(op.tensors, [](const Tensor& tensor) {
    if (tensor.dtype() != DType::float64) return tensor;
    const std::vector<double> values = tensor.to_vector();
    return filled(tensor.sizes(), DType::float64, [&](size_t i) { return representable(values[i]); });
  });
  const Tensors expected = call(op, exact);
  check_reference(op, exact, expected);
  const std::pair<DType, double> dtypes[] = {{DType::float32, 2e-5}, {DType::bfloat16, 6e-2}, {DType::float16, 8e-3}};
  for (const auto& [dtype, tolerance] : dtypes) {
    const Tensors inputs = mapped(exact, [&, to = dtype](const Tensor& tensor) {
      return tensor.dtype() == DType::float64 ? converted(tensor, to) : tensor;
    });
    const Tensors got = call(op, inputs);
    ASSERT_EQ(got.size(), expected.size());
    const std::string in = "in " + std::string(name(dtype));
    for (size_t i = 0; i < got.size(); ++i) {
      expect_values(got[i], expected[i], tolerance, in);
      const DType follows = std::count(op.always_float64.begin(), op.always_float64.end(), i) ? DType::float64
                            : std::count(op.statistics.begin(), op.statistics.end(), i)       ? DType::float32
                                                                                              : dtype;
      EXPECT_EQ(name(got[i].dtype()), name(expected[i].dtype() == DType::float64 ? follows : expected[i].dtype()))
          << in << ": the dtype of result " << i;
    }
  }
}

void check_integers(const Case& op) {
  const auto whole = [](const Tensor& tensor, DType dtype) {
    const std::vector<double> values = tensor.to_vector();
    return filled(tensor.sizes(), dtype, [&](size_t i) { return std::round(2 * values[i]) + 0.0; });  // no -0: int64 has none
  };
  const Tensors inputs = mapped(op.tensors, [&](const Tensor& tensor) { return whole(tensor, DType::float64); });
  const Tensors expected = call(op, inputs);
  check_reference(op, inputs, expected);
  const Tensors got = call(op, mapped(op.tensors, [&](const Tensor& tensor) { return whole(tensor, DType::int64); }));
  for (size_t i = 0; i < got.size(); ++i) expect_values(got[i], expected[i], 2e-5, "of int64");
  if (!op.integers && got[0].dtype() != DType::bool_) {
    EXPECT_EQ(name(got[0].dtype()), name(DType::float32)) << "integers compute as float32";
  }
}

/// How a call is made: for its results, in place, or in place on a part of a larger tensor, which is then the result.
enum class Form { functional, inplace, inplace_on_view };

/// The op as a function of the inputs that derivatives are taken for, with its floating results.
struct Function {
  const Case& op;
  Form form = Form::functional;

  Tensors inputs() const {
    Tensors result;
    for (size_t i = 0; i < op.tensors.size(); ++i) {
      if (op.differentiable[i]) result.push_back(op.tensors[i]);
    }
    return result;
  }
  Tensors operator()(const Tensors& inputs) const {
    Tensors tensors = op.tensors;
    for (size_t i = 0, next = 0; i < tensors.size(); ++i) {
      if (op.differentiable[i]) tensors[i] = inputs[next++];
    }
    Tensors results;
    if (form == Form::functional) {
      results = call(op, tensors);
    } else if (form == Form::inplace) {
      tensors[0] = clone(tensors[0]);
      op.inplace(tensors);
      results = {tensors[0]};
    } else {
      Dims sizes(tensors[0].sizes());
      sizes.push_back(2);
      const Tensor whole = zeros_raw(sizes, tensors[0].dtype(), tensors[0].device()), part = whole.select(-1, 1);
      part.copy_(tensors[0]);
      tensors[0] = part;
      op.inplace(tensors);
      results = {whole};
    }
    std::erase_if(results, [](const Tensor& result) { return !is_floating(result.dtype()); });
    // Elements that are infinite stay so (the maximum of nothing): they have no differences to compare with.
    for (Tensor& result : results) {
      const std::vector<double> values = result.to_vector();
      if (std::any_of(values.begin(), values.end(), [](double value) { return std::isinf(value); }))
        result = masked_fill(result, isinf(result), 0);
    }
    return results;
  }
};

template <typename Check>
void expect_derivative(const std::string& what, Check&& derivative) {
  try {
    derivative();
  } catch (const Error& error) {
    ADD_FAILURE() << what << ": " << error.message();
  }
}

void check_derivatives(const Case& op) {
  const std::pair<Form, std::string> forms[] = {
      {Form::functional, ""}, {Form::inplace, " in place"}, {Form::inplace_on_view, " in place on a view"}};
  for (const auto& [form, where] : forms) {
    if (form != Form::functional && (!op.inplace || !op.differentiable[0])) continue;
    const Function function{op, form};
    const Tensors inputs = function.inputs();
    expect_derivative("reverse mode" + where, [&] { gradcheck(function, inputs); });
    expect_derivative("forward mode" + where, [&] { forward_gradcheck(function, inputs); });
    expect_derivative("reverse over reverse" + where, [&] { gradgradcheck(function, inputs); });
    expect_derivative("forward over reverse" + where, [&] { forward_gradgradcheck(function, inputs); });
  }
}

/// Every order exists: the slope of a pointwise op as a function of its inputs, to second order once more.
void check_third_order(const Case& op) {
  const Function function{op};
  const auto slope = [&](const Tensors& inputs) {
    const Tensor y = function(inputs)[0];
    return vjp(function, inputs,
               Tensors{filled(y.sizes(), y.dtype(), [](size_t i) { return 1 + 0.5 * static_cast<double>(i % 3); })})
        .second;
  };
  expect_derivative("third order", [&] { gradgradcheck(slope, function.inputs(), {.step = 1e-5}); });
}

/// Where a function of one tensor, its slope or its curvature has become constant it stays so out to infinity.
void check_limits(const Case& op) {
  using Unary = std::function<Tensor(const Tensor&)>;
  const Unary value = [&](const Tensor& x) { return op.call({x})[0]; };
  const auto slope_of = [](const Unary& f) -> Unary {
    return [f](const Tensor& x) {
      const Tensor y = f(x);
      return vjp([&](const Tensor& point) { return f(point); }, x, filled(y.sizes(), y.dtype(), [](size_t) { return 1; })).second;
    };
  };
  const Unary slope = slope_of(value), curvature = slope_of(slope);
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const double sign : {-1.0, 1.0}) {
      const double points[] = {100, 300, 900, 1e30, std::numeric_limits<double>::infinity()};
      const Tensor x = filled({5}, dtype, [&](size_t i) { return sign * points[i]; });
      const std::pair<const char*, const Unary*> orders[] = {
          {"the value", &value}, {"the slope", &slope}, {"the curvature", &curvature}};
      for (const auto& [what, f] : orders) {
        const std::vector<double> y = (*f)(x).to_vector();
        const double constant = y[0];
        if (!std::isfinite(constant) || std::abs(y[1] - constant) > 1e-9 || std::abs(y[2] - constant) > 1e-9) continue;
        for (const size_t far : {3, 4}) {
          EXPECT_NEAR(y[far], constant, 1e-6)
              << what << " at " << sign * points[far] << " in " << name(dtype) << ", constant from " << sign * points[0] << " on";
        }
      }
    }
  }
}

/// What a message may give in place of "(expected ...)": why the operands do not go together.
constexpr const char* kReasons[] = {"do not broadcast", "does not broadcast"};

/// The message of an error in a call of `op`: `op: ` once and first, then what was given, and what would be accepted or why not.
void expect_form(const Case& op, const Error& error) {
  const std::string& message = error.message();
  // The case of an overload is called op_Overload, or op_dim.
  const bool named = op.name == error.op() || (op.name.starts_with(error.op() + "_") &&
                                               (std::isupper(op.name[error.op().size() + 1]) || op.name.ends_with("_dim")));
  EXPECT_TRUE(named && message.starts_with(error.op() + ": "))
      << "the message does not begin with " << op.name << ": " << message;
  EXPECT_EQ(error.detail().find(error.op() + ": "), std::string::npos) << message;
  const bool reason = std::any_of(std::begin(kReasons), std::end(kReasons),
                                  [&](const char* text) { return error.detail().find(text) != std::string::npos; });
  EXPECT_TRUE(reason || (error.detail().find("(expected ") != std::string::npos && error.detail().ends_with(")")))
      << "the message does not say what is expected: " << message;
}

/// Of several tensors each in turn one larger and one smaller than the sample says, and of other dtypes: a result, or an Error in
/// the one form, and never memory that is no tensor's, which the sanitizers see.
void check_wrong_arguments(const Case& op) {
  const auto attempt = [&](size_t i, const Tensor& wrong) {
    Tensors tensors = op.tensors;
    tensors[i] = wrong;
    try {
      call(op, tensors);
    } catch (const Error& error) {
      expect_form(op, error);
    }
  };
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (!op.tensors[i].defined()) continue;
    for (const DType dtype : {DType::bool_, DType::int64, DType::float32}) {
      if (dtype != op.tensors[i].dtype()) attempt(i, filled(op.tensors[i].sizes(), dtype, [](size_t) { return 0; }));
    }
    Dims more(op.tensors[i].sizes());
    more.insert(more.begin(), 2);
    attempt(i, filled(more, op.tensors[i].dtype(), [](size_t) { return 0; }));
    if (op.tensors[i].dim() > 0) attempt(i, filled({}, op.tensors[i].dtype(), [](size_t) { return 0; }));
  }
  for (size_t i = 0; i < op.tensors.size() && op.tensors.size() > 1; ++i) {
    if (!op.tensors[i].defined()) continue;
    for (int64_t dim = 0; dim < op.tensors[i].dim(); ++dim) {
      for (const int64_t change : {-1, 1}) {
        Dims sizes(op.tensors[i].sizes());
        if ((sizes[static_cast<size_t>(dim)] += change) < 0) continue;
        attempt(i, filled(sizes, op.tensors[i].dtype(), [](size_t) { return 1; }));
      }
    }
  }
}

}  // namespace

Random::Random() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + test->name();
  engine_.seed(testing::seed() ^ std::hash<std::string>()(name));
}

Tensor Random::normal(Ints sizes) {
  std::normal_distribution<double> distribution;
  return filled(sizes, DType::float64, [&](size_t) { return distribution(engine_); });
}

Tensor Random::uniform(Ints sizes, double low, double high) {
  std::uniform_real_distribution<double> distribution(low, high);
  return filled(sizes, DType::float64, [&](size_t) { return distribution(engine_); });
}

Tensor Random::integers(Ints sizes, int64_t low, int64_t high, DType dtype) {
  std::uniform_int_distribution<int64_t> distribution(low, high - 1);
  return filled(sizes, dtype, [&](size_t) { return static_cast<double>(distribution(engine_)); });
}

Tensor Random::values(Ints sizes, const std::vector<double>& values, DType dtype) {
  return filled(sizes, dtype, [&](size_t i) { return values[i]; });
}

void check(const Case& op) {
  SCOPED_TRACE(op.name);
  try {
    const Tensors expected = call(op, op.tensors);
    if (op.view) {
      for (const Tensor& result : expected)
        EXPECT_EQ(result.storage(), op.tensors[0].storage()) << "a view shares its base's storage";
    }
    check_reference(op, op.tensors, expected);
    if (op.layouts && op.strided) check_layouts(op, expected);
    check_variants(op, expected);
    check_wrong_arguments(op);
    if (op.dtypes && op.layouts) check_dtypes(op);
    bool all_floating = !op.tensors.empty();
    for (const Tensor& tensor : op.tensors) all_floating = all_floating && tensor.defined() && tensor.dtype() == DType::float64;
    if (op.pointwise && all_floating) check_integers(op);
    if (op.pointwise && all_floating) check_accuracy(op);
    if (op.derivatives) check_derivatives(op);
    if (op.derivatives && op.pointwise) check_third_order(op);
    if (op.pointwise && all_floating && op.derivatives && op.tensors.size() == 1) check_limits(op);
    check_semantics(op);
  } catch (const Error& error) {
    ADD_FAILURE() << error.message();
  }
}

}  // namespace deckle::suite
