#include "deckle/base/error.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "deckle/base/check.h"
#include "deckle/base/range.h"

namespace deckle {
namespace {

TEST(Error, IsOneSentenceFromItsFields) {
  Error error(ErrorKind::value, "dim", "3 is out of range for shape [4, 7] (expected -2..1)");
  EXPECT_STREQ(error.what(), "dim 3 is out of range for shape [4, 7] (expected -2..1)");
  error.set_op("softmax");
  EXPECT_STREQ(error.what(), "softmax: dim 3 is out of range for shape [4, 7] (expected -2..1)");
  EXPECT_EQ(error.op(), "softmax");
  EXPECT_EQ(error.argument(), "dim");
  EXPECT_EQ(error.detail(), "3 is out of range for shape [4, 7] (expected -2..1)");
  EXPECT_EQ(error.kind(), ErrorKind::value);
}

TEST(Error, IsOfTheOutermostFunctionThatItPasses) {
  const auto inner = [] {
    try {
      fail("shapes [2] and [3] do not broadcast (dim -1: 2 against 3)");
    } catch (...) {
      rethrow_from("squared_error");
    }
  };
  try {
    try {
      inner();
    } catch (...) {
      rethrow_from("mse_loss");
    }
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "mse_loss: shapes [2] and [3] do not broadcast (dim -1: 2 against 3)");
  }
}

TEST(Error, GivesTheShapesOfNestedOperandsThatTheDetailDoesNot) {
  Error error("shapes [7, 3] and [7, 4] do not broadcast");
  error.set_op("add", {{"self", "[2, 2..5, 3]", "[7, 3]"},
                       {"other", "[2, 2..5, 4]", "[9, 9]"},
                       {"dense", "[5]", ""},
                       {"given", "[7, 4]", "[7, 3]"}});
  EXPECT_EQ(error.message(),
            "add: shapes [7, 3] and [7, 4] do not broadcast; self is [2, 2..5, 3] with values [7, 3], other is [2, 2..5, 4]");
  EXPECT_EQ(error.shapes().size(), 4);
  error.set_op("sum");
  EXPECT_TRUE(error.shapes().empty()) << "the operands of another function";
}

/// An operand of which the tensor is at `tensor`, with elements at `storage`.
Operand operand(std::string name, const int* tensor, const int* storage) {
  return {std::move(name), "[2]", "", {{tensor, storage}}};
}

TEST(Error, OfACallWithinNamesTheOperandsOfTheCallAround) {
  const int tensors[4] = {}, storages[3] = {};
  const auto of_mm = [&](Error error) {
    error.set_op("mm", {operand("self", &tensors[0], &storages[0]), operand("mat2", &tensors[1], &storages[1])});
    return error;
  };
  const Error text("self is float32, mat2 is float64, as the self of self_2"), of_self(ErrorKind::value, "self", "is int64");

  Error error = of_mm(text);
  error.set_op("addmm", {operand("self", &tensors[3], &storages[2]), operand("mat1", &tensors[0], &storages[0]),
                         operand("mat2", &tensors[2], &storages[1])});
  EXPECT_EQ(error.message(), "addmm: mat1 is float32, mat2 is float64, as the self of self_2") << "the same, and a view";
  error.set_op("f", {operand("a", &tensors[0], &storages[0]), operand("b", &tensors[2], &storages[1])});
  EXPECT_EQ(error.message(), "f: a is float32, b is float64, as the self of self_2");

  error = of_mm(of_self);
  error.set_op("g", {operand("input", &tensors[0], &storages[0])});
  EXPECT_EQ(error.argument(), "input");
  EXPECT_EQ(error.message(), "g: input is int64") << "mat2, of which nothing is said, need not have a name";

  error = of_mm(of_self);
  error.set_op("g", {operand("self", &tensors[3], &storages[2])});
  EXPECT_EQ(error.message(), "g: in mm: self is int64") << "a tensor that g made";
  EXPECT_EQ(error.argument(), "");
  error.set_op("h", {operand("x", &tensors[0], &storages[0])});
  EXPECT_EQ(error.message(), "h: in mm: self is int64");

  error = of_mm(of_self);
  error.set_op("g", {operand("a", &tensors[2], &storages[0]), operand("b", &tensors[3], &storages[0])});
  EXPECT_EQ(error.message(), "g: in mm: self is int64") << "either view may be meant";
}

TEST(Error, OfMemoryIsAnErrorOfTheCall) {
  try {
    try {
      throw std::bad_alloc();
    } catch (...) {
      rethrow_from("add");
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_EQ(error.op(), "add");
  }
}

TEST(Error, OtherExceptionsPassUnchanged) {
  const auto call = [] {
    try {
      throw std::runtime_error("another");
    } catch (...) {
      rethrow_from("add");
    }
  };
  EXPECT_THROW(call(), std::runtime_error);
}

TEST(Error, CopiesSayTheSameAndGoTheirOwnWays) {
  Error error("shapes differ");
  EXPECT_EQ(error.message(), "shapes differ");
  Error copy = error;
  copy.set_op("add");
  EXPECT_EQ(copy.message(), "add: shapes differ");
  EXPECT_EQ(error.message(), "shapes differ");
  error = copy;
  EXPECT_STREQ(error.what(), "add: shapes differ");
}

TEST(Error, NamedFunctionsReturnWhatTheirBodiesDo) {
  const int number = 3;
  EXPECT_EQ(&call_as("f", [&]() -> const int& { return number; }), &number);
  try {
    call_as("f", [] { fail("no"); });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "f: no");
  }
}

TEST(Check, ARangeOfNothingIsNone) {
  try {
    check(false, "index 0 is out of range (expected {} or {})", Range{0, -1}, Range{-2, 1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "index 0 is out of range (expected none or -2..1)");
  }
}

TEST(Check, NamesTheArgument) {
  try {
    check(false, Argument{"p"}, "is {} (expected 0 to 1)", 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.argument(), "p");
    EXPECT_EQ(error.message(), "p is 2 (expected 0 to 1)");
  }
}

}  // namespace
}  // namespace deckle
