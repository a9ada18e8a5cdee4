// The formula language and the schemas: what is read is what was meant, with positions.
#include <gtest/gtest.h>

#include "opgen/schema/schema.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

std::string round_trip(const std::string& text) { return to_string(parse(text)); }

TEST(Formula, OperatorsBindAsInCpp) {
  EXPECT_EQ(round_trip("a + b * c"), "a + b * c");
  EXPECT_EQ(round_trip("(a + b) * c"), "(a + b) * c");
  EXPECT_EQ(round_trip("a - (b - c)"), "a - (b - c)");
  EXPECT_EQ(round_trip("a - b - c"), "a - b - c");
  EXPECT_EQ(round_trip("-a * b"), "-a * b");
  EXPECT_EQ(round_trip("-(a * b)"), "-(a * b)");
  EXPECT_EQ(round_trip("a < b && c || !d"), "a < b && c || !d");
  EXPECT_EQ(round_trip("a ? b : c ? d : e"), "a ? b : c ? d : e");
}

TEST(Formula, CallsMethodsTuplesListsAndIndices) {
  EXPECT_EQ(round_trip("f(a, dim=-1)"), "f(a, dim=-1)");
  EXPECT_EQ(round_trip("a.t().sum(0)[1]"), "a.t().sum(0)[1]");
  EXPECT_EQ(round_trip("(a, [b, 2.5e-3], 'text')"), "(a, [b, 2.5e-3], 'text')");
  EXPECT_EQ(round_trip("(a)"), "a");
}

TEST(Formula, LetIsSubstituted) { EXPECT_EQ(round_trip("let a = x + 1, b = a * a in b - a"), "(x + 1) * (x + 1) - (x + 1)"); }

TEST(Formula, PositionsFollowFoldedLines) {
  const std::vector<std::string> lines = {"  self: >", "    grad *", "      slf"};
  const Text text("grad * slf", "ops.yaml", lines, 0, 8);
  const ExprPtr tree = inline_lets(parse_formula(text));
  EXPECT_EQ(tree->args[1]->at.to_string(), "ops.yaml:3:7");
}

std::string schema(const std::string& text) { return parse_schema(Text(text, Position{"schema", 1, 1})).to_string(); }

TEST(Schema, TheWholeGrammarSurvivesARoundTrip) {
  for (const char* text : {
           "f() -> ()",
           "f(Tensor self) -> Tensor",
           "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           "add_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
           "f(Tensor? weight=None, int[2] stride=1, int[]? dim=None, float eps=1e-05, bool flag=True, str mode='none') -> Tensor",
           "split(Tensor(a -> *) self, int size, int dim=0) -> Tensor(a)[]",
           "sort(Tensor self, int dim=-1) -> (Tensor values, Tensor indices)",
           "f(Tensor?[] indices, Tensor(a!)[] outs, ScalarType? dtype=None, Generator? generator=None) -> (Tensor, Tensor(b|c))",
           "f(Ragged ragged, Plan plan, int[] sizes=[1,2]) -> float",
       }) {
    EXPECT_EQ(schema(text), text);
  }
}

TEST(Schema, SymbolicIntegersAreIntegers) {
  EXPECT_EQ(schema("f(Tensor self, SymInt[] size) -> Tensor"), "f(Tensor self, int[] size) -> Tensor");
}

}  // namespace
}  // namespace opgen::testing
