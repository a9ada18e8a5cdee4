#include "deckle/functional/gradcheck.h"

#include <cmath>
#include <cstring>
#include <span>

#include "deckle/autograd/public_ops.h"
#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/base/philox.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/functional/transforms.h"
#include "deckle/functional/variable.h"

namespace deckle::functional {
namespace {

bool differentiable(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

/// Elements `first`, ... of a contiguous float64 tensor, wherever it is.
void put(const Tensor& to, int64_t first, std::span<const double> values) {
  auto* const place = static_cast<double*>(address(to)) + first;
  const auto bytes = static_cast<int64_t>(values.size_bytes());
  if (to.device().is_cuda()) {
    cuda::use(to.storage()->data(), to.device());
    cuda::copy_bytes(place, to.device(), values.data(), {}, bytes);
  } else if (bytes > 0)
    std::memcpy(place, values.data(), static_cast<size_t>(bytes));
}
void put(const Tensor& to, int64_t at, double value) { put(to, at, {&value, 1}); }

/// Jacobian[input][output]: [numel(output), numel(input)] row-major; empty for tensors that are not differentiable.
using Jacobian = std::vector<std::vector<std::vector<double>>>;

std::vector<Tensor> contiguous_copies(const std::vector<Tensor>& inputs) {
  const NoGrad quiet;
  std::vector<Tensor> copies;
  for (const Tensor& input : inputs) {
    if (differentiable(input)) {
      check(input.dtype() == DType::float64, "an input is {} (expected float64)", name(input.dtype()));
      const Tensor copy = empty(input.sizes(), input.dtype(), input.device());
      put(copy, 0, input.to_vector());
      copies.push_back(copy);
    } else {
      copies.push_back(input);
    }
  }
  return copies;
}

Jacobian empty_jacobian(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  Jacobian jacobian(inputs.size(), std::vector<std::vector<double>>(outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (differentiable(inputs[i]) && differentiable(outputs[o])) {
        jacobian[i][o].resize(static_cast<size_t>(outputs[o].numel() * inputs[i].numel()));
      }
    }
  }
  return jacobian;
}

Jacobian numerical_jacobian(const VectorFunction& f, const std::vector<Tensor>& inputs, double step) {
  const NoGrad quiet;
  const std::vector<Tensor> points = contiguous_copies(inputs);
  Jacobian jacobian = empty_jacobian(inputs, f(points));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!differentiable(inputs[i])) continue;
    const int64_t columns = points[i].numel();
    const std::vector<double> originals = points[i].to_vector();
    for (int64_t column = 0; column < columns; ++column) {
      const double original = originals[static_cast<size_t>(column)];
      put(points[i], column, original + step);
      const std::vector<Tensor> above = f(points);
      std::vector<std::vector<double>> above_values;
      for (const Tensor& output : above)
        above_values.push_back(differentiable(output) ? output.to_vector() : std::vector<double>{});
      put(points[i], column, original - step);
      const std::vector<Tensor> below = f(points);  // may be views of the points: read before they change again
      for (size_t o = 0; o < above.size(); ++o) {
        if (!differentiable(above[o])) continue;
        const std::vector<double> below_values = below[o].to_vector();
        for (size_t row = 0; row < below_values.size(); ++row) {
          jacobian[i][o][row * static_cast<size_t>(columns) + static_cast<size_t>(column)] =
              (above_values[o][row] - below_values[row]) / (2 * step);
        }
      }
      put(points[i], column, original);
    }
  }
  return jacobian;
}

Jacobian reverse_jacobian(const VectorFunction& f, const std::vector<Tensor>& inputs) {
  const EnableGrad recording;
  std::vector<Tensor> points = contiguous_copies(inputs);
  for (const Tensor& point : points) {
    if (differentiable(point)) point.requires_grad_();
  }
  const std::vector<Tensor> outputs = f(points);
  Jacobian jacobian = empty_jacobian(inputs, outputs);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!differentiable(outputs[o]) || !autograd::requires_grad(outputs[o])) continue;
    for (int64_t row = 0; row < outputs[o].numel(); ++row) {
      const Tensor one_hot = zeros_raw(outputs[o].sizes(), outputs[o].dtype(), outputs[o].device());
      put(one_hot, row, 1);
      const std::vector<Tensor> gradients =
          grad(outputs[o], points, {.grad_outputs = {one_hot}, .retain_graph = true, .allow_unused = true});
      for (size_t i = 0; i < points.size(); ++i) {
        if (!differentiable(points[i]) || !gradients[i].defined()) continue;
        const std::vector<double> values = gradients[i].to_vector();
        std::copy(values.begin(), values.end(), jacobian[i][o].begin() + row * points[i].numel());
      }
    }
  }
  return jacobian;
}

Jacobian forward_jacobian(const VectorFunction& f, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> points = contiguous_copies(inputs);
  Jacobian jacobian;
  {
    const NoGrad quiet;
    jacobian = empty_jacobian(inputs, f(points));
  }
  for (size_t i = 0; i < points.size(); ++i) {
    if (!differentiable(points[i])) continue;
    const int64_t columns = points[i].numel();
    for (int64_t column = 0; column < columns; ++column) {
      std::vector<Tensor> tangents(points.size());
      tangents[i] = zeros_raw(points[i].sizes(), points[i].dtype(), points[i].device());
      put(tangents[i], column, 1);
      const std::vector<Tensor> result = jvp([&](const std::vector<Tensor>& x) { return f(x); }, points, tangents).second;
      for (size_t o = 0; o < result.size(); ++o) {
        if (!differentiable(result[o])) continue;
        const std::vector<double> values = result[o].to_vector();
        for (size_t row = 0; row < values.size(); ++row) {
          jacobian[i][o][row * static_cast<size_t>(columns) + static_cast<size_t>(column)] = values[row];
        }
      }
    }
  }
  return jacobian;
}

void compare(const Jacobian& analytic, const Jacobian& numerical, const GradcheckOptions& options, std::string_view mode) {
  for (size_t i = 0; i < numerical.size(); ++i) {
    for (size_t o = 0; o < numerical[i].size(); ++o) {
      const std::vector<double>&a = analytic[i][o], &n = numerical[i][o];
      check(a.size() == n.size(), "{}: the function's outputs changed between calls", mode);
      for (size_t at = 0; at < n.size(); ++at) {
        check(
            std::isfinite(n[at]),
            "{}: central differences of output {} by input {} are {} at position {}: the function is not finite around the input",
            mode, o, i, n[at], at);
        const bool close = std::abs(a[at] - n[at]) <= options.absolute + options.relative * std::abs(n[at]);
        check(close, "{}: d output {} / d input {} at position {} is {}, central differences give {}", mode, o, i, at, a[at],
              n[at]);
      }
    }
  }
}

/// (inputs, cotangents) -> gradients of the differentiable inputs.
VectorFunction backward_of(const VectorFunction& f, const std::vector<Tensor>& inputs, std::vector<Tensor>& arguments) {
  std::vector<Tensor> outputs;
  {
    const NoGrad quiet;
    outputs = f(contiguous_copies(inputs));
  }
  arguments = inputs;
  uint32_t counter = 0;
  for (const Tensor& output : outputs) {
    if (!differentiable(output)) continue;
    const Tensor cotangent = empty(output.sizes(), output.dtype(), output.device());
    std::vector<double> values(static_cast<size_t>(cotangent.numel()));
    for (double& value : values) {
      const auto words = Philox<10>::generate({counter++, 0, 0, 0}, 0x6772u, 0x6164u);
      value = static_cast<double>(words[0]) * 0x1p-31 - 1;
    }
    put(cotangent, 0, values);
    arguments.push_back(cotangent);
  }
  return [f, count = inputs.size()](const std::vector<Tensor>& values) {
    const EnableGrad recording;
    const std::vector<Tensor> points = variables(TensorList(std::span(values).first(count)));
    std::vector<Tensor> roots;
    GradOptions options{.create_graph = true, .allow_unused = true};
    size_t next = count;
    for (const Tensor& output : f(points)) {
      if (!differentiable(output)) continue;
      const Tensor& cotangent = values[next++];
      if (!autograd::requires_grad(output)) continue;
      roots.push_back(output);
      options.grad_outputs.push_back(cotangent);
    }
    std::vector<Tensor> result(count);
    if (!roots.empty()) result = grad(roots, points, options);
    for (size_t i = 0; i < count; ++i) {
      if (!result[i].defined() && differentiable(points[i]))
        result[i] = zeros_raw(points[i].sizes(), points[i].dtype(), points[i].device());
    }
    std::erase_if(result, [](const Tensor& tensor) { return !tensor.defined(); });
    return result;
  };
}

}  // namespace

void gradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  compare(reverse_jacobian(f, inputs), numerical_jacobian(f, inputs, options.step), options, "gradcheck");
}

void forward_gradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  compare(forward_jacobian(f, inputs), numerical_jacobian(f, inputs, options.step), options, "forward_gradcheck");
}

void gradgradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  std::vector<Tensor> arguments;
  const VectorFunction backward = backward_of(f, inputs, arguments);
  compare(reverse_jacobian(backward, arguments), numerical_jacobian(backward, arguments, options.step), options, "gradgradcheck");
}

void forward_gradgradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  std::vector<Tensor> arguments;
  const VectorFunction backward = backward_of(f, inputs, arguments);
  compare(forward_jacobian(backward, arguments), numerical_jacobian(backward, arguments, options.step), options,
          "forward_gradgradcheck");
}

}  // namespace deckle::functional
