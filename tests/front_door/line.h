#pragma once

#include <deckle/deckle.h>

#include <sstream>
#include <string>
#include <vector>

/// One-line programs and how their values are written in lines.txt: numbers to four digits, zeros with their sign, tensors as
/// nested lists with their dtype behind them unless it is float32 or bool.
namespace front_door {

/// What every line may use, made anew for each.
struct Data {
  deckle::Tensor x = deckle::tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  deckle::Tensor y = deckle::tensor({{0.5f, -1.0f, 2.0f}, {3.0f, -2.0f, 1.0f}});
  deckle::Tensor v = deckle::tensor({1.0f, 2.0f, 3.0f});
  deckle::Tensor w = deckle::tensor({2.0f, 0.0f, -1.0f});
  deckle::Tensor a = deckle::tensor({{2.0f, 1.0f}, {1.0f, 3.0f}});
  deckle::Tensor i = deckle::tensor<int64_t>({{1, 2, 3}, {4, 5, 6}});
  deckle::Tensor k = deckle::tensor<int64_t>({2, 0, 1});
  deckle::Tensor m = deckle::tensor({true, false, true});
  deckle::NestedTensor n = deckle::NestedTensor::from_lengths(deckle::tensor({{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}}), {2, 1});
  deckle::Generator g{1};
  std::string p = "front_door.safetensors";
};

// Names of the data as local variables of a line; not every line reads all of them. (No structured binding: clang with OpenMP
// lets no lambda capture one.)
#define UNPACK(data)                                                                                                         \
  [[maybe_unused]] deckle::Tensor &x = data.x, &y = data.y, &v = data.v, &w = data.w, &a = data.a, &i = data.i, &k = data.k, \
                                  &m = data.m;                                                                               \
  [[maybe_unused]] deckle::NestedTensor& n = data.n;                                                                         \
  [[maybe_unused]] deckle::Generator& g = data.g;                                                                            \
  [[maybe_unused]] std::string& p = data.p

struct Line {
  int number;
  const char* program;
  const char* value;
  std::string (*run)(Data);
};

// One function for each file of lines; CMakeLists.txt says how many.
std::vector<Line> lines_0();
std::vector<Line> lines_1();
std::vector<Line> lines_2();
std::vector<Line> lines_3();

std::string text(const deckle::Tensor& value);
std::string text(const deckle::NestedTensor& value);
std::string text(deckle::Ints value);
std::string text(const deckle::Dims& value);
std::string text(bool value);
std::string text(double value);
std::string text(const std::string& value);
template <typename T>
requires(std::is_arithmetic_v<T>) std::string text(T value) { return text(static_cast<double>(value)); }
template <typename T>
std::string text(const std::vector<T>& values) {
  constexpr bool tensors = std::is_same_v<T, deckle::Tensor>;
  std::string result;
  for (const T& value : values) result += (result.empty() ? "" : tensors ? " " : ", ") + text(value);
  return tensors ? result : "[" + result + "]";
}

}  // namespace front_door
