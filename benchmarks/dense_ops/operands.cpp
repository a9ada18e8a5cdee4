#include "operands.h"

namespace dense_ops {

namespace dk = deckle;

std::map<std::string, dk::Tensor> draw(int64_t rows, int64_t columns, bool integers, uint64_t seed) {
  dk::Generator generator(seed);
  const auto values = [&](dk::Ints sizes) {
    return integers ? dk::sub(dk::randint(0, 101, sizes, {.generator = &generator}), 50)
                    : dk::randn(sizes, {.generator = &generator});
  };
  const auto places = [&](int64_t count, dk::Ints sizes) { return dk::randint(0, count, sizes, {.generator = &generator}); };
  const dk::Tensor positive = integers ? dk::randint(1, 10, {rows, columns}, {.generator = &generator})
                                       : dk::add(dk::rand({rows, columns}, {.generator = &generator}), 0.1);
  return {{"x", values({rows, columns})},
          {"y", values({rows, columns})},
          {"positive", positive},
          {"mask", dk::randint(0, 2, {rows, columns}, {.generator = &generator})},
          {"columns", places(columns, {rows, columns})},
          {"rows", places(rows, {rows, columns})},
          {"bias", values({columns})},
          {"square", values({columns, columns})},
          {"kernel", values({16, columns, 3})},
          {"few", values({16, columns})},
          {"narrow", values({columns, 16})},
          {"experts", values({4, columns, columns})},
          {"ids", places(rows, {rows})},
          {"classes", places(columns, {rows})}};
}

Operands make_operands(const std::map<std::string, dk::Tensor>& drawn, dk::DType dtype, const std::string& layout) {
  const auto placed = [&](const dk::Tensor& t) {
    return layout == "transposed" ? dk::transpose(dk::contiguous(dk::transpose(t, 0, 1)), 0, 1).detach() : t.detach();
  };
  const auto leaf = [&](const dk::Tensor& t) {
    dk::Tensor result = t.detach();
    return dk::is_floating(dtype) ? result.requires_grad_() : result;
  };
  const auto converted = [&](const char* name) { return dk::clone(dk::to(drawn.at(name), dtype)); };
  const auto matrix = [&](const char* name) { return leaf(placed(converted(name))); };
  Operands d;
  d.x = matrix("x");
  d.y = matrix("y");
  d.positive = matrix("positive");
  d.mask = placed(dk::to(drawn.at("mask"), dk::DType::bool_));
  d.columns = placed(drawn.at("columns"));
  d.rows = placed(drawn.at("rows"));
  d.bias = leaf(converted("bias"));
  d.square = matrix("square");
  d.kernel = leaf(converted("kernel"));
  d.few = matrix("few");
  d.narrow = matrix("narrow");
  d.experts = leaf(converted("experts"));
  const int64_t rows = d.x.size(0), columns = d.x.size(1);
  d.grouped = dk::Ragged(std::make_shared<const dk::RaggedShape>(
      std::vector<int64_t>{rows / 16, rows / 4 - rows / 16, 9 * rows / 16 - rows / 4, rows - 9 * rows / 16}));
  d.signal = leaf(dk::view(converted("x"), {4, rows / 4, columns}).detach());
  d.ids = drawn.at("ids");
  d.classes = drawn.at("classes");
  return d;
}

std::map<std::string, dk::Tensor> leaves(const Operands& d) {
  return {{"x", d.x},           {"y", d.y},           {"positive", d.positive}, {"bias", d.bias},     {"square", d.square},
          {"kernel", d.kernel}, {"signal", d.signal}, {"few", d.few},           {"narrow", d.narrow}, {"experts", d.experts}};
}

}  // namespace dense_ops
