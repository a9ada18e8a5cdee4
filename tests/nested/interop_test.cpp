#include "deckle/nested/interop.h"

#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "deckle/nested/generated/pointwise.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

/// The arrays of a golden file: lines `name dtype [sizes]: elements`.
std::map<std::string, Tensor> golden(const std::string& stem) {
  std::ifstream file(std::string(NESTED_GOLDEN) + "/" + stem + ".txt");
  EXPECT_TRUE(file.good()) << stem;
  std::map<std::string, Tensor> arrays;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t open = line.find('['), close = line.find(']');
    std::istringstream head(line.substr(0, open)), elements(line.substr(close + 2));
    std::string name, dtype, size;
    head >> name >> dtype;
    std::istringstream inside(line.substr(open + 1, close - open - 1));
    Dims sizes;
    while (std::getline(inside, size, ',')) sizes.push_back(std::stoll(size));
    const DType type = dtype == "int32"     ? DType::int32
                       : dtype == "int64"   ? DType::int64
                       : dtype == "float32" ? DType::float32
                                            : DType::float64;
    const Tensor array = zeros_raw(sizes, DType::float64, Device());
    for (int64_t i = 0; i < array.numel(); ++i) elements >> array.data<double>()[i];
    EXPECT_FALSE(elements.fail()) << stem << ": " << line;
    arrays[name] = array.to(type);
  }
  return arrays;
}

void expect_golden(const NestedTensor& x, const std::map<std::string, Tensor>& arrays) {
  int64_t components = 0;
  while (arrays.contains("component" + std::to_string(components))) ++components;
  ASSERT_GT(components, 0);
  ASSERT_EQ(x.components(), components);
  for (int64_t b = 0; b < components; ++b) expect_equal(x[b], arrays.at("component" + std::to_string(b)));
}

void expect_same(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.dtype(), expected.dtype());
  expect_equal(got, expected);
}

TEST(Interop, TorchJagged) {
  auto arrays = golden("torch_jagged");
  const NestedTensor x = from_jagged({arrays["values"], arrays["offsets"], {}});
  expect_golden(x, arrays);
  EXPECT_TRUE(x.values().is_same(arrays["values"]));
  expect_same(to_jagged(x).values, arrays["values"]);
  expect_same(to_jagged(x).offsets, arrays["offsets"]);
  EXPECT_EQ(to_jagged(x, DType::int32).offsets.dtype(), DType::int32);
}

TEST(Interop, TorchJaggedWithHoles) {
  auto arrays = golden("torch_jagged_holes");
  const Tensor offsets = arrays["offsets"], lengths = arrays["lengths"];
  expect_golden(from_jagged({arrays["values"], offsets, lengths}), arrays);
  expect_gradients(
      [&](const Tensor& values) {
        return square(from_jagged({values, offsets, lengths}).values());
      },
      random_tensor({12, 2}));
}

TEST(Interop, TorchStrided) {
  for (const char* stem : {"torch_strided", "torch_strided_transposed"}) {
    auto arrays = golden(stem);
    const StridedLayout layout{arrays["buffer"], arrays["sizes"], arrays["strides"], arrays["offsets"]};
    const NestedTensor x = from_strided(layout);
    EXPECT_EQ(x.ragged_dims(), 2);
    expect_golden(x, arrays);
    const StridedLayout packed = to_strided(x);
    expect_golden(from_strided(packed), arrays);
    expect_same(packed.sizes, layout.sizes);
    const auto f = [&](const Tensor& buffer) {
      return square(from_strided({buffer, layout.sizes, layout.strides, layout.offsets}).values());
    };
    expect_gradients(f, random_tensor({10}));
  }
  auto arrays = golden("torch_strided");
  const StridedLayout packed =
      to_strided(from_strided({arrays["buffer"], arrays["sizes"], arrays["strides"], arrays["offsets"]}));
  expect_same(packed.buffer, arrays["buffer"]);
  expect_same(packed.offsets, arrays["offsets"]);
}

TEST(Interop, StridedKeepsRegularDimsRegular) {
  const NestedTensor x = random_nested({3, 0, 2}, {2, 4});
  const NestedTensor back = from_strided(to_strided(x));
  EXPECT_EQ(back.ragged_dims(), 1);
  expect_equal(back.values(), x.values());
  EXPECT_EQ(from_strided(to_strided(x), 2).ragged_dims(), 2);
}

TEST(Interop, VarlenAttention) {
  auto arrays = golden("flash_varlen");
  const NestedTensor x = from_varlen(arrays["values"], arrays["cu_seqlens"]);
  expect_golden(x, arrays);
  const VarlenLayout layout = to_varlen(x);
  expect_same(layout.cu_seqlens, arrays["cu_seqlens"]);
  EXPECT_EQ(layout.max_seqlen, arrays["max_seqlen"].item<int64_t>());
}

TEST(Interop, ArrowListsWhoseFirstOffsetIsNotZero) {
  for (const char* stem : {"arrow_list", "arrow_large_list"}) {
    auto arrays = golden(stem);
    const NestedTensor x = from_arrow({arrays["offsets"], arrays["values"]});
    expect_golden(x, arrays);
    EXPECT_TRUE(x.values().storage() == arrays["values"].storage());
    const ArrowList list = to_arrow(x, arrays["offsets"].dtype());
    expect_golden(from_arrow(list), arrays);
    EXPECT_EQ(list.offsets.dtype(), arrays["offsets"].dtype());
  }
}

TEST(Interop, RoundTripsOfEveryPattern) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {2});
    expect_equal(from_jagged(to_jagged(x, DType::int32)).values(), x.values());
    expect_equal(from_arrow(to_arrow(x)).values(), x.values());
    expect_equal(from_varlen(to_varlen(x).values, to_varlen(x).cu_seqlens).values(), x.values());
    if (!lengths.empty()) expect_equal(from_strided(to_strided(x)).values(), x.values());
  }
}

TEST(Interop, SaysWhatIsWrongWithAnOffset) {
  const Tensor values = random_tensor({4, 2});
  expect_error([&] { from_varlen(values, integers({0, 5, 3, 4})); }, "from_varlen: cu_seqlens must not fall: [1] is 5, [2] is 3");
  expect_error(
      [&] {
        from_varlen(values, integers({0, 3}));
      },
      "from_varlen: cu_seqlens goes from 0 to 3, but values of shape [4, 2] have rows 0..4");
  expect_error([&] { from_varlen(values, integers({1, 4})); }, "cu_seqlens goes from 1 to 4");
  expect_error(
      [&] {
        from_arrow({integers({0, 5}), values});
      },
      "from_arrow: component 0 holds 5 rows from 0 on, but values of shape [4, 2] have 4");
  expect_error([&] { from_arrow({integers({-1, 4}), values}); }, "from_arrow: offsets must not be negative: [0] is -1");
  expect_error([&] { from_jagged({values, integers({0, 2}), integers({1, 1})}); }, "2 offsets for 2 lengths (expected one more)");
  expect_error([&] { from_arrow({values, values}); }, "offsets is float64 (expected int64 or int32)");
  expect_error(
      [&] {
        from_strided({random_tensor({3}), integers({2}).view({1, 1}), integers({2}).view({1, 1}), integers({2})});
      },
      "from_strided: component 0 of sizes [2], strides [2] and offset 2 reads outside the buffer's 3 elements");
}

TEST(Interop, RefusesWhatOverflows) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Tensor values = random_tensor({4, 2}), buffer = random_tensor({12});
  expect_error(
      [&] {
        from_jagged({values, integers({1, 2, 4}), integers({kMost, 0})});
      },
      "component 0 holds 9223372036854775807 rows from 1 on");
  const auto strided = [&](std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides, int64_t offset) {
    return from_strided({buffer, integers(sizes).view({1, 2}), integers(strides).view({1, 2}), integers({offset})});
  };
  expect_error([&] { strided({2, 3}, {kMost, kMost}, 1); }, "reads outside the buffer's 12 elements");
  expect_error([&] { strided({2, 3}, {-3, 1}, 2); }, "reads outside the buffer's 12 elements");
  expect_error([&] { strided({2, -1}, {3, 1}, 0); }, "is negative");
  expect_error([] { from_strided({}); }, "from_strided: the buffer is undefined (expected a vector)");
  expect_error([] { from_strided({zeros({2, 3}), {}, {}, {}}); }, "the buffer has shape [2, 3] (expected a vector)");
  expect_close(strided({2, 3}, {-3, 1}, 3)[0], flip(buffer.slice(0, 0, 6).view({2, 3}), {0}), 0, 0);
  expect_close(strided({2, 3}, {0, 0}, 5).values(), full({2, 3}, buffer[5].item(), DType::float64), 0, 0);  // all are one element
  EXPECT_EQ(strided({int64_t{1} << 40, 0}, {1, 1}, 0).values().numel(), 0);
}

}  // namespace
}  // namespace deckle
