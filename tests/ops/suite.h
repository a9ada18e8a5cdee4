#pragma once

#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "deckle/core/tensor.h"

/// The one test suite of all ops. Generated files describe calls, sample by sample; check() holds each to what every op
/// promises. Pointwise ops agree with a naive reference; of all ops layouts, variants, dtypes and derivatives agree.
namespace deckle::suite {

/// Fresh values in every run; the seed is printed (DECKLE_TEST_SEED repeats it). Numbers within a test differ by more than the
/// steps of finite differences, and keep that far from literals.
class Random {
 public:
  Random();
  Tensor normal(Ints sizes);
  Tensor uniform(Ints sizes, double low, double high);
  /// low .. high - 1
  Tensor integers(Ints sizes, int64_t low, int64_t high, DType dtype);
  Tensor values(Ints sizes, const std::vector<double>& values, DType dtype);

 private:
  double residue();

  std::mt19937_64 engine_;
  std::vector<int> residues_;
  size_t next_ = 0;
};

/// One call of one op.
struct Case {
  std::string name;
  std::vector<Tensor> tensors;       // all tensor arguments, lists flattened
  std::vector<bool> differentiable;  // which of them derivatives are tested for
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call;
  double (*reference)(const std::vector<double>&) = nullptr;  // of a pointwise op: its expression on one element of each tensor
  void (*inplace)(const std::vector<Tensor>&) = nullptr;
  void (*out)(const std::vector<Tensor>&, const Tensor& out) = nullptr;
  bool writes = false;  // the op itself writes its first argument
  bool pointwise = false;
  bool integers = false;  // a pointwise op with an integer form
  bool checks = false;    // whose entry refuses some operands
  bool view = false;
  bool host = false;          // said by the entry: it reads values on the host
  bool of_cpu = false;        // it has no CUDA kernel: formulas for the CPU alone call it
  bool linear = false;        // claimed by the entry: auto_linear
  bool element_wise = false;  // auto_element_wise
  bool derivatives = true;
  bool dtypes = true;                  // the dtype of the results follows from that of the inputs
  bool layouts = true;                 // equal inputs give equal results
  bool strided = true;                 // inputs may have any strides
  std::vector<size_t> statistics;      // results whose dtype is float32 or more precise
  std::vector<size_t> always_float64;  // results whose dtype no input changes
};

void check(const Case& op);

/// |got - expected| <= tolerance max(1, max |expected|), element by element, in the same dtype; integers are equal.
void expect_near(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what);
void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double tolerance, const std::string& what);

inline std::vector<Tensor> results(const Tensor& result) { return {result}; }
inline std::vector<Tensor> results(const std::vector<Tensor>& result) { return result; }
template <typename... T>
std::vector<Tensor> results(const std::tuple<T...>& result) {
  return std::apply([](const auto&... element) { return std::vector<Tensor>{element...}; }, result);
}

}  // namespace deckle::suite
