#include "deckle/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace deckle::io {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_integer;

/// A file with this header and that many bytes of data.
std::string file_with(std::string header, size_t data_bytes) {
  const uint64_t size = header.size();
  std::string contents(8, '\0');
  std::memcpy(contents.data(), &size, 8);
  return contents + header + std::string(data_bytes, '\1');
}

std::string error_for(const std::string& contents) {
  const TemporaryFolder folder;
  put_file(folder / "x.safetensors", contents);
  return error_of([&] { load(folder / "x.safetensors"); });
}

Tensor random_bits(Ints sizes, DType dtype) {
  const Tensor tensor = empty(sizes, dtype);
  auto* bytes = static_cast<unsigned char*>(tensor.raw_data());
  for (int64_t i = 0; i < tensor.numel() * item_size(dtype); ++i) {
    bytes[i] = static_cast<unsigned char>(random_integer(0, dtype == DType::bool_ ? 1 : 255));
  }
  return tensor;
}

TEST(Safetensors, EveryDtypeAndShapeComesBackBitForBit) {
  const TemporaryFolder folder;
  TensorMap tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    tensors[std::string(name(dtype)) + ".matrix"] = random_bits({3, 5}, dtype);
    tensors[std::string(name(dtype)) + ".scalar"] = random_bits({}, dtype);
    tensors[std::string(name(dtype)) + ".empty"] = random_bits({4, 0}, dtype);
  }
  tensors["with \"quotes\", \\ and ü"] = random_bits({7}, DType::float32);
  save(tensors, folder / "a", {{"key", "value"}});
  const TensorMap loaded = load(folder / "a");
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& other = loaded.at(name);
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_TRUE(other.sizes() == tensor.sizes()) << name;
    const auto bytes = static_cast<size_t>(tensor.numel() * item_size(tensor.dtype()));
    EXPECT_TRUE(bytes == 0 || std::memcmp(other.raw_data(), tensor.raw_data(), bytes) == 0) << name;
  }
  EXPECT_EQ(SafetensorsFile(folder / "a").metadata().at("key"), "value");
}

TEST(Safetensors, OfOneNameTwiceIsAnError) {
  const TemporaryFolder folder;
  const Tensor x = tensor({1.0, 2.0});
  testing::expect_error(
      [&] {
        save({{"a", x}, {"a", x}}, folder / "twice");
      },
      "save: two tensors are named \"a\" (expected different names)");
  save({{"a", x}, {"b", x}}, folder / "once");
  EXPECT_EQ(load(folder / "once").size(), 2u);
}

TEST(Safetensors, AStridedTensorIsSavedInRowMajorOrder) {
  const TemporaryFolder folder;
  const Tensor tensor = empty({2, 3}, DType::int32);
  for (int i = 0; i < 6; ++i) tensor.data<int32_t>()[i] = i;
  save({{"t", alias(tensor, {3, 2}, {1, 3}, 0)}}, folder / "a");
  const Tensor loaded = load(folder / "a").at("t");
  EXPECT_THAT(loaded.to_vector<int>(), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Safetensors, TheHeaderIsPaddedSoThatDataIsAligned) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "ab", "abc", "abcd", "abcdefgh"}) {
    save({{name, empty({1}, DType::float64)}}, folder / "a");
    uint64_t header = 0;
    std::memcpy(&header, get_file(folder / "a").data(), 8);
    EXPECT_EQ(header % 8, 0u);
  }
}

TEST(Safetensors, AFailedSaveKeepsTheOldFile) {
  const TemporaryFolder folder;
  save({{"t", empty({2})}}, folder / "a");
  const std::string before = get_file(folder / "a");
  EXPECT_THAT(error_of([&] { save({{"t", Tensor()}}, folder / "a"); }), Eq("save: \"t\" is undefined (expected a tensor)"));
  EXPECT_THAT(error_of([&] { save({{"\xff", empty({1})}}, folder / "a"); }), HasSubstr("not valid UTF-8"));
  EXPECT_EQ(get_file(folder / "a"), before);
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const TemporaryFolder folder;
  save({{"a", empty({3})}, {"b", empty({2, 2}, DType::int64)}}, folder / "a");
  const std::string whole = get_file(folder / "a");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_for(whole.substr(0, size)), "no error") << size << " bytes of " << whole.size();
  }
  EXPECT_THAT(error_for(whole + "x"), HasSubstr("1 bytes at the end belong to no tensor"));
}

TEST(Safetensors, LiesOfTheHeaderAreErrorsThatSaySo) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const struct {
    std::string header;
    size_t data;
    const char* message;
  } cases[] = {
      {one("F32", "[2]", "[0,8]"), 8, "no error"},
      {one("F32", "[2]", "[0,4]"), 4, "has 4 bytes, but F32 [2] takes 8"},
      {one("F32", "[2]", "[8,0]"), 8, "lie outside"},
      {one("F32", "[2]", "[0,8]"), 4, "lie outside the 4 bytes"},
      {one("F32", "[2]", "[4,12]"), 12, "4 bytes before tensor \"t\" belong to no tensor"},
      {one("F32", "[4294967296,4294967296]", "[0,8]"), 8, "overflows"},
      {one("F32", "[9223372036854775808]", "[0,8]"), 8, "overflows"},
      {one("F32", "[0,9223372036854775807]", "[0,0]"), 0, "no error"},
      {one("F32", "[0,18446744073709551615]", "[0,0]"), 0, "overflows"},
      {one("F32", "[2]", "[0,18446744073709551615]"), 8, "lie outside"},
      {one("F32", "[2]", "[0,18446744073709551616]"), 8, "no list of non-negative integers"},
      {one("F32", "[-2]", "[0,8]"), 8, "no list of non-negative integers"},
      {one("F32", "[2.0]", "[0,8]"), 8, "no list of non-negative integers"},
      {one("F32", "[2]", "[0]"), 8, "has 1 numbers (expected 2)"},
      {one("F32", "2", "[0,8]"), 8, "no list of non-negative integers"},
      {one("F31", "[2]", "[0,8]"), 8, "unknown dtype \"F31\""},
      {one("I8", "[8]", "[0,8]"), 8, "has dtype I8 (expected BOOL"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12,
       "overlaps"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16,
       "\"t\" occurs twice"},
      {R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "\"dtype\" occurs twice"},
      {R"({"t":{"shape":[2],"data_offsets":[0,8]}})", 8, "has no \"dtype\""},
      {R"({"t":{"dtype":3,"shape":[2],"data_offsets":[0,8]}})", 8, "is no string"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8, "unknown part \"x\""},
      {R"({"t":7})", 0, "described by no object"},
      {R"({"__metadata__":{"a":1}})", 0, "no string"},
      {R"({"__metadata__":7})", 0, "no object"},
      {R"({"t":)", 0, "not valid JSON"},
      {"{\"t\xff\":1}", 0, "not valid JSON"},
      {"[]", 0, "does not begin with {"},
      {"{}", 0, "no error"},
      {"{}   ", 0, "no error"},
      {"{}x", 0, "not valid JSON"},
  };
  for (const auto& c : cases) EXPECT_THAT(error_for(file_with(c.header, c.data)), HasSubstr(c.message)) << c.header;
}

TEST(Safetensors, AnAbsurdHeaderSizeIsAnErrorBeforeAnythingIsRead) {
  for (const uint64_t size : {uint64_t{100}, uint64_t{200'000'000}, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    std::string contents(64, '{');
    std::memcpy(contents.data(), &size, 8);
    EXPECT_THAT(error_for(contents), HasSubstr("header claims")) << size;
  }
}

TEST(Safetensors, BoolBytesOtherThanZeroAndOneAreAnError) {
  std::string contents = file_with(R"({"t":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  EXPECT_EQ(error_for(contents), "no error");
  contents.back() = '\2';
  EXPECT_THAT(error_for(contents), HasSubstr("other than 0 and 1"));
}

/// Random bytes in place of some: the file is refused as a file, or its tensors are of sizes that its bytes cover.
TEST(Safetensors, RandomDamageIsAnErrorOfTheFileOrReadWithinIt) {
  const TemporaryFolder folder;
  save({{"a", empty({3})}, {"b", empty({2, 2}, DType::bool_)}}, folder / "a", {{"k", "v"}});
  const std::string whole = get_file(folder / "a");
  const std::string path = (folder / "b").string();
  int refused = 0, read = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    for (int64_t i = random_integer(0, 2); i >= 0; --i)
      damaged[static_cast<size_t>(random_integer(0, std::ssize(whole) - 1))] = static_cast<char>(random_integer(0, 255));
    put_file(path, damaged);
    TensorMap tensors;
    const std::string error = error_of([&] { tensors = load(path); });
    int64_t bytes = 0;
    for (const auto& [name, tensor] : tensors) bytes += tensor.numel() * item_size(tensor.dtype());
    EXPECT_LE(bytes, 3 * 4 + 4) << damaged;
    if (error == "no error")
      ++read;
    else
      EXPECT_EQ(error.rfind(path + ": ", 0), 0) << error;
    refused += error != "no error";
  }
  EXPECT_GT(refused, 200);  // a byte of the header's syntax is wrong
  EXPECT_GT(read, 20);      // a byte of the values
}

TEST(Safetensors, ErrorsBeginWithThePathOnce) {
  const TemporaryFolder folder;
  put_file(folder / "x", "short");
  const std::string path = (folder / "x").string();
  EXPECT_EQ(error_of([&] { load(path); }), path + ": not a safetensors file: 5 bytes");
  save({}, folder / "x");
  EXPECT_EQ(error_of([&] { SafetensorsFile(path).read("t"); }), path + ": has no tensor \"t\"");
}

}  // namespace
}  // namespace deckle::io
