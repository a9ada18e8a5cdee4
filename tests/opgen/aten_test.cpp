// The reader of PyTorch's files, on small files of our own in the same dialect: what it understands, word by word, and everything
// that it refuses or cannot type, with the place. OPGEN_UPDATE=1 rewrites what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "opgen/readers/aten/entries.h"
#include "opgen/readers/aten/formula.h"
#include "opgen/readers/aten/helpers.h"
#include "opgen/readers/aten/report.h"
#include "opgen/text/strings.h"
#include "tests/opgen/support.h"
#include "tests/support/seed.h"

namespace opgen::testing {
namespace {

const std::string kAten = kFolder + "/aten/";

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

aten::File own(const std::string& name) { return {kAten + "golden/" + name, name}; }

struct AtenOutcome {
  aten::Checked checked;
  Problems problems;
  Problems not_typed;
};

AtenOutcome check_files(const aten::File& functions, const aten::File& derivatives) {
  AtenOutcome outcome;
  outcome.checked = aten::check(functions, derivatives, outcome.problems);
  for (const aten::NotTyped& one : outcome.checked.not_typed)
    outcome.not_typed.push_back(one.at.to_string() + ": " + one.formula + ": " + one.reason);
  return outcome;
}

std::vector<std::string> cases_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kAten + folder)) names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What the head of a case says must come, behind `mark`.
Problems stated_in(const std::string& path, const std::string& file, const std::string& mark) {
  Problems expected;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line) && line.rfind(mark, 0) == 0;)
    expected.push_back(file + ":" + line.substr(mark.size()));
  EXPECT_FALSE(expected.empty()) << "the case states nothing";
  return expected;
}

class AtenErrors : public ::testing::TestWithParam<std::string> {};

TEST_P(AtenErrors, SayWhereWhatAndWhatWouldBeRight) {
  const std::string file = GetParam() + ".yaml", path = kAten + "errors/records/" + file;
  EXPECT_EQ(check_files(own("functions.yaml"), {path, file}).problems, stated_in(path, file, "# error: "));
}

INSTANTIATE_TEST_SUITE_P(Records, AtenErrors, ::testing::ValuesIn(cases_of("errors/records")),
                         [](const auto& info) { return info.param; });

class AtenFunctionErrors : public ::testing::TestWithParam<std::string> {};

TEST_P(AtenFunctionErrors, SayWhereWhatAndWhatWouldBeRight) {
  const std::string file = GetParam() + ".yaml", path = kAten + "errors/functions/" + file;
  EXPECT_EQ(check_files({path, file}, own("no_derivatives.yaml")).problems, stated_in(path, file, "# error: "));
}

INSTANTIATE_TEST_SUITE_P(Functions, AtenFunctionErrors, ::testing::ValuesIn(cases_of("errors/functions")),
                         [](const auto& info) { return info.param; });

class AtenNotTyped : public ::testing::TestWithParam<std::string> {};

TEST_P(AtenNotTyped, IsListedWithItsPlaceAndTheReason) {
  const std::string file = GetParam() + ".yaml", path = kAten + "errors/not_typed/" + file;
  const AtenOutcome outcome = check_files(own("functions.yaml"), {path, file});
  EXPECT_EQ(outcome.problems, Problems());
  EXPECT_EQ(outcome.not_typed, stated_in(path, file, "# error: "));
}

INSTANTIATE_TEST_SUITE_P(Formulas, AtenNotTyped, ::testing::ValuesIn(cases_of("errors/not_typed")),
                         [](const auto& info) { return info.param; });

class AtenLayerErrors : public ::testing::TestWithParam<std::string> {};

TEST_P(AtenLayerErrors, SayWhereWhatAndWhatWouldBeRight) {
  const std::string file = GetParam() + ".yaml", path = kAten + "errors/layers/" + file;
  AtenOutcome outcome = check_files(own("functions.yaml"), own("derivatives.yaml"));
  aten::entries_of(outcome.checked, {path, file}, "derivatives.yaml", outcome.problems);
  EXPECT_EQ(outcome.problems, stated_in(path, file, "# error: "));
}

INSTANTIATE_TEST_SUITE_P(Layers, AtenLayerErrors, ::testing::ValuesIn(cases_of("errors/layers")),
                         [](const auto& info) { return info.param; });

/// The problems of making `mul.Tensor` an entry, where this is the formula for self and other.
Problems problems_of_entry(const std::string& formula) {
  const std::string derivatives = temporary_path("aten_entry.yaml"), layer = derivatives + ".layer";
  std::ofstream(derivatives) << "- name: mul.Tensor(Tensor self, Tensor other) -> Tensor\n  self, other: " << formula << "\n";
  std::ofstream(layer) << "prefix: a_\nops: [{op: mul.Tensor}]\n";
  AtenOutcome outcome = check_files(own("functions.yaml"), {derivatives, "entry.yaml"});
  EXPECT_EQ(outcome.problems, Problems());
  aten::entries_of(outcome.checked, {layer, "layer.yaml"}, "entry.yaml", outcome.problems);
  std::filesystem::remove(derivatives);
  std::filesystem::remove(layer);
  return outcome.problems;
}

TEST(AtenEntries, NeedFormulasThatTheyCanSay) {
  EXPECT_EQ(problems_of_entry("grad *"), Problems{"entry.yaml:2:22: 'mul.Tensor' has no tree, so it can be no entry"});
  EXPECT_EQ(problems_of_entry("\"grad_input_mask[2] ? blend_backward(grad, self, other, {}, grad_input_mask) : "
                              "std::tuple<Tensor, Tensor>()\""),
            Problems{"entry.yaml:2:32: grad_input_mask has 2 elements"});
}

void expect_golden_text(const std::string& name, const std::string& text) {
  const std::string golden = kAten + "golden/expected/" + name;
  if (std::getenv("OPGEN_UPDATE")) write_if_changed(golden, text);
  EXPECT_TRUE(text == contents_of(golden)) << golden << " differs; OPGEN_UPDATE=1 rewrites it";
}

TEST(Aten, EveryPartOfTheDialectIsUnderstood) {
  const AtenOutcome outcome = check_files(own("functions.yaml"), own("derivatives.yaml"));
  EXPECT_EQ(outcome.problems, Problems());
  expect_golden_text("check.txt", aten::text_of(outcome.checked, true));
  expect_golden_text("check.json", aten::json_of(outcome.checked, outcome.problems));
}

TEST(Aten, ChosenRecordsBecomeEntries) {
  AtenOutcome outcome = check_files(own("functions.yaml"), own("derivatives.yaml"));
  const std::string entries = aten::entries_of(outcome.checked, own("layer.yaml"), "derivatives.yaml", outcome.problems);
  EXPECT_EQ(outcome.problems, Problems());
  expect_golden_text("entries.txt", entries);
}

TEST(Aten, TheLayerThatIsTestedOnTheEngineIsMadeFromItsRecords) {
  const std::string folder = kAten + "layer/";
  AtenOutcome outcome =
      check_files({folder + "functions.yaml", "functions.yaml"}, {folder + "derivatives.yaml", "derivatives.yaml"});
  const std::string entries =
      aten::entries_of(outcome.checked, {folder + "layer.yaml", "layer.yaml"}, "derivatives.yaml", outcome.problems);
  EXPECT_EQ(outcome.problems, Problems());
  EXPECT_EQ(outcome.not_typed, Problems());
  EXPECT_GE(outcome.checked.entries.size(), 40u);
  if (std::getenv("OPGEN_UPDATE")) write_if_changed(folder + "aten_layer.yaml", entries);
  EXPECT_TRUE(entries == contents_of(folder + "aten_layer.yaml")) << "aten_layer.yaml differs; OPGEN_UPDATE=1 rewrites it";
}

TEST(Aten, FilesThatCannotBeReadAreProblems) {
  EXPECT_EQ(check_files(own("none.yaml"), own("nor_this.yaml")).problems, Problems{"none.yaml:1:1: the file cannot be read"});
  EXPECT_EQ(check_files(own("functions.yaml"), own("nor_this.yaml")).problems,
            Problems{"nor_this.yaml:1:1: the file cannot be read"});
}

TEST(Aten, ForeachAloneIsTheNameOfNoListOfOps) {
  const std::string functions = temporary_path("aten_foreach.yaml");
  for (const char* name : {"_foreach_", "_foreach__", "_foreach"}) {
    std::ofstream(functions) << "- func: " << name << "(Tensor(a!)[] self) -> ()\n  variants: function\n";
    check_files({functions, "functions.yaml"}, own("no_derivatives.yaml"));
  }
  std::filesystem::remove(functions);
}

TEST(Aten, HelpersHaveReadableSignatures) {
  EXPECT_GT(aten::helpers().functions.size(), 150u);
  EXPECT_GT(aten::helpers().methods.size(), 25u);
}

TEST(Aten, FormulasBecomeTreesOfOurLanguage) {
  const auto tree = [](const std::string& text) {
    return to_string(aten::parse_cpp_formula(Text(text, Position{"formula", 1, 1})));
  };
  EXPECT_EQ(tree("-a * b + c / d"), "-a * b + c / d");
  EXPECT_EQ(tree("(a + b) * -(c - 2.5e-3f)"), "(a + b) * -(c - 2.5e-3)");
  EXPECT_EQ(tree("at::native::f(::std::nullopt, Tensor(), M_PI)"), "f(none, none, pi)");
  EXPECT_EQ(tree("p->sym_size(0) + (*q).g() + x.item<double>()"), "p.size(0) + q.value().g() + x.item()");
  EXPECT_EQ(tree("std::tuple<Tensor, Tensor>()"), "(none, none)");
  EXPECT_EQ(tree("std::get<1>(f(x))"), "f(x)[1]");
  EXPECT_EQ(tree("std::optional<c10::SymInt>(n)"), "n");
  EXPECT_EQ(tree("std::vector<Tensor>{a, b}"), "[a, b]");
  EXPECT_EQ(tree("std::vector<c10::SymInt>(n, 0)"), "repeated(n, 0)");
  EXPECT_EQ(tree("f({{1, 1}}, {}, {{1, 2}, {3, 4}})"), "f([1, 1], [], [[1, 2], [3, 4]])");
  EXPECT_EQ(tree("a == b || !c && d < e ? x : y"), "a == b || !c && d < e ? x : y");
  EXPECT_EQ(tree("a & b | ~c ^ d << 2"), "bitwise_or(bitwise_and(a, b), bitwise_xor(bitwise_not(c), bitwise_left_shift(d, 2)))");
  EXPECT_EQ(tree("static_cast<int64_t>(x) % +2"), "int64_t(x) % 2");
  EXPECT_EQ(tree("f(/*by=*/\"it\\\"s\", 'c') // the end"), "f('it\"s', 'c')");
}

TEST(AtenMutations, AreReportedWithPlacesButNeverCrash) {
  std::mt19937_64 engine(deckle::testing::seed());
  const auto below = [&](size_t limit) { return static_cast<size_t>(engine() % limit); };
  const std::string symbols = "()[]{}:,?!->*&|<>=.'\"0x%\n \t-#~;/\\";
  for (const char* mutated : {"functions.yaml", "derivatives.yaml"}) {
    const std::string original = contents_of(kAten + "golden/" + mutated);
    const aten::File changed{temporary_path("aten_mutation.yaml"), "mutated.yaml"};
    for (int round = 0; round < 150; ++round) {
      std::string text = original;
      for (size_t changes = 1 + below(4); changes > 0; --changes) {
        const size_t at = below(text.size() + 1);  // all of it may be gone already
        switch (below(3)) {
          case 0:
            text.erase(at, 1 + below(12));
            break;
          case 1:
            text.insert(at, 1, symbols[below(symbols.size())]);
            break;
          default:
            text.erase(at);  // truncated
            text += '\n';
        }
      }
      std::ofstream(changed.path) << text;
      const bool functions = std::string(mutated) == "functions.yaml";
      const AtenOutcome outcome =
          check_files(functions ? changed : own("functions.yaml"), functions ? own("derivatives.yaml") : changed);
      for (const Problems* all : {&outcome.problems, &outcome.not_typed}) {
        for (const std::string& one : *all)
          EXPECT_NE(one.find(".yaml:"), std::string::npos) << "without a place: " << one << "\n" << text;
      }
      aten::json_of(outcome.checked, outcome.problems);
    }
    std::filesystem::remove(changed.path);
  }
}

}  // namespace
}  // namespace opgen::testing
