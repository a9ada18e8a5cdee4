// Every rule of the generator: a file that breaks it, headed by the whole message that must come.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "opgen/readers/entries/load.h"
#include "opgen/resolve/kernel_rules.h"
#include "tests/opgen/support.h"
#include "tests/support/seed.h"

namespace opgen::testing {
namespace {

const std::string kMark = "# error: ";

std::vector<std::string> cases(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder + "/" + folder))
    names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What the head of a case says must come.
std::vector<std::string> stated(const std::string& path, const std::string& name) {
  std::vector<std::string> expected;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line) && line.rfind(kMark, 0) == 0;)
    expected.push_back(name + ":" + line.substr(kMark.size()));
  EXPECT_FALSE(expected.empty()) << "the case states no error";
  return expected;
}

class Errors : public ::testing::TestWithParam<std::string> {};

TEST_P(Errors, SayWhereWhatAndWhatWouldBeRight) {
  const std::string file = GetParam() + ".yaml", path = kFolder + "/errors/" + file;
  EXPECT_EQ(compile_file(path, file).problems, stated(path, file));
}

INSTANTIATE_TEST_SUITE_P(Rules, Errors, ::testing::ValuesIn(cases("errors")), [](const auto& info) { return info.param; });

class FunctionErrors : public ::testing::TestWithParam<std::string> {};

TEST_P(FunctionErrors, SayWhereWhatAndWhatWouldBeRight) {
  const std::string file = GetParam() + ".yaml", path = kFolder + "/functions_errors/" + file;
  Library library;
  Problems problems;
  load_functions(path, file, library, problems);
  EXPECT_EQ(problems, stated(path, file));
}

INSTANTIATE_TEST_SUITE_P(Rules, FunctionErrors, ::testing::ValuesIn(cases("functions_errors")),
                         [](const auto& info) { return info.param; });

TEST(CoreErrors, AreThoseOfTheLibraryAsAWhole) {
  const std::string root = kFolder + "/core";
  EXPECT_EQ(compile_file(root + "/ops/entries.yaml", "entries.yaml", root).problems,
            (Problems{"entries.yaml:10:9: 'silent' does not say what it does to nested tensors: add 'nested:', with values, a "
                      "segment op, or the reason why not",
                      "deckle/kernels/cpu/reduce/orphan.cpp:1:1: no op claims this kernel: write its entry, or name it in "
                      "ops/pending_kernels.txt with the reason",
                      "deckle/kernels/cuda/reduce/orphan.cu:1:1: no op claims this kernel: write its entry, or name it in "
                      "ops/pending_kernels.txt with the reason"}));
}

TEST(CoreErrors, OpsOfTheCpuAreNotCalledOnAGpu) {
  const std::string root = kFolder + "/core_devices";
  EXPECT_EQ(
      compile_file(root + "/ops/entries.yaml", "entries.yaml", root).problems,
      (Problems{"entries.yaml:19:14: 'everywhere' calls 'fast' on a GPU too, which has no CUDA kernel: call it in the 'cpu:' "
                "formula of a composite by device",
                "entries.yaml:25:11: 'lonely' has no CUDA kernel: add 'cuda: family/stem', or call it in the 'cpu:' formula of a "
                "composite by device",
                "entries.yaml:25:11: 'lonely' has no CUDA kernel and does not say why: add 'cpu_only:' with the reason, and what "
                "a GPU runs instead"}));
}

TEST(CoreErrors, ComeAgainWhenKernelsDo) {
  const std::vector<std::string> watched = watched_paths(kFolder + "/core");
  const auto has = [&](const std::string& path) {
    return std::count(watched.begin(), watched.end(), kFolder + "/core/" + path) == 1;
  };
  EXPECT_TRUE(has("ops/pending_kernels.txt"));
  EXPECT_TRUE(has("deckle/kernels/cpu"));
  EXPECT_TRUE(has("deckle/kernels/cpu/reduce"));
}

TEST(Files, ThatCannotBeReadAreProblems) {
  EXPECT_EQ(compile_file(kFolder + "/no_such_file.yaml", "no_such_file.yaml").problems,
            Problems{"no_such_file.yaml:1:1: the file cannot be read"});
  EXPECT_EQ(compile_file(kFolder + "/errors", "errors").problems, Problems{"errors:1:1: this is a folder: name a file in it"});
  EXPECT_EQ(compile_file("/dev/zero", "zero").problems, Problems{"zero:1:1: the file cannot be read"});
}

TEST(Files, ThatAreTooLargeAreProblems) {
  const std::string path = temporary_path("large.yaml");
  std::ofstream(path) << std::string(2'000'001, '#');
  EXPECT_EQ(compile_file(path, "large.yaml").problems,
            Problems{"large.yaml:1:1: the file has 2000001 bytes, and 2000000 are what is read: make several files of it"});
}

TEST(Files, WithoutEntriesAreProblems) {
  const std::string path = temporary_path("no_entries.yaml");
  for (const char* text : {"", "# Nothing yet.\n", "[]\n", "null\n"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(compile_file(path, "none.yaml").problems, Problems{"none.yaml:1:1: an entry file is a list of '- func:' entries"});
  }
  std::filesystem::remove(path);
}

TEST(Problems, AreOneLineEach) {
  const Problem problem({"a.yaml", 1, 2}, "no op is named 'x\n\ty\x01'");
  EXPECT_STREQ(problem.what(), "a.yaml:1:2: no op is named 'x\\n\\ty\\x01'");
  EXPECT_EQ(problem.message(), "no op is named 'x\\n\\ty\\x01'");
}

TEST(Problems, OfOneCauseAreSaidOnce) {
  EXPECT_EQ(said_once({"a: b.yaml:1:2: no set is named 'x'", "a: b.yaml:3:4: no op is named 'y'",
                       "c.yaml:5:6: no set is named 'x'", "c.yaml:7:8: no set is named 'x'"}),
            (Problems{"a: b.yaml:1:2: no set is named 'x' (and at 2 other places)", "a: b.yaml:3:4: no op is named 'y'"}));
}

TEST(Files, OfFunctionsThatDeclareNothingAreOneProblem) {
  const std::string empty = temporary_path("no_functions.yaml");
  std::ofstream(empty) << "# nothing\n";
  Inputs inputs = inputs_of(kFolder + "/golden/forms.yaml", "forms.yaml");
  inputs.functions = {{empty, "no_functions.yaml"}};
  Problems problems;
  analyze(inputs, false, problems);
  EXPECT_EQ(problems,
            Problems{"no_functions.yaml:1:1: it declares neither scalar functions nor sets of samples, of which entries "
                     "are made"});
}

TEST(Operators, AreOpsThatNeedEntries) {
  Problems problems;
  std::vector<std::string> notes;
  compile({{{kFolder + "/functions.yaml", "functions.yaml"}}, {}, {{kFolder + "/no_operators.yaml", "no_operators.yaml"}}, ""},
          {}, problems, notes);
  EXPECT_EQ(problems, Problems{"no_operators.yaml:5:27: '*' on tensors is the op 'mul', which has no entry"});
}

TEST(BaseEntries, HaveNoProblems) {
  Library library;
  Problems problems, twice;
  load_entries({{kFolder + "/base.yaml", "base.yaml", true}}, library, problems);
  for (const auto& entry : library.entries)
    twice.push_back(fmt::format("again.yaml:{}:9: '{}' stands twice; the first is at base.yaml:{}:9", entry->at.line,
                                entry->unique_name(), entry->at.line));
  EXPECT_EQ(problems, Problems());
  EXPECT_EQ(compile_file(kFolder + "/base.yaml", "again.yaml").problems, twice) << "and nothing else";
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Code in which literals that stand one behind the other are one.
std::string joined(const std::string& code) {
  std::string text;
  for (size_t i = 0; i < code.size(); ++i) {
    const size_t next = code[i] == '"' ? code.find_first_not_of(" \n", i + 1) : std::string::npos;
    if (next != std::string::npos && code[next] == '"' && code.find('\n', i) < next)
      i = next;
    else
      text += code[i];
  }
  return text;
}

/// Of each literal in the code the longest text that fmt puts nothing into; those of which little stays are left out.
std::vector<std::string> fragments(const std::string& code) {
  std::vector<std::string> longest;
  std::string part;
  bool inside = false;
  const auto end_part = [&] {
    if (part.size() > longest.back().size()) longest.back() = part;
    part.clear();
  };
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '"') {
      if (inside)
        end_part();
      else
        longest.emplace_back();
      inside = !inside;
    } else if (inside && code[i] == '\\') {
      part += code[++i];
    } else if (inside && (code[i] == '{' || code[i] == '}') && code[i + 1] == code[i]) {
      part += code[i++];
    } else if (inside && code[i] == '{') {
      end_part();
      i = code.find('}', i);
    } else if (inside) {
      part += code[i];
    }
  }
  std::erase_if(longest, [](const std::string& fragment) { return fragment.size() < 8; });
  return longest;
}

TEST(Messages, EachHasACaseThatShowsIt) {
  namespace fs = std::filesystem;
  std::string shown;
  for (const auto& file : fs::recursive_directory_iterator(kFolder)) {
    if (!file.is_regular_file()) continue;
    if (file.path().extension() == ".cpp") shown += joined(contents(file.path()));
    std::ifstream stream(file.path());
    for (std::string line; std::getline(stream, line) && line.rfind(kMark, 0) == 0;) shown += line + "\n";
  }
  size_t messages = 0;
  for (const auto& file : fs::recursive_directory_iterator(kFolder + "/../../opgen")) {
    if (file.path().extension() != ".cpp" || file.path().filename() == "main.cpp") continue;
    const std::string code = joined(contents(file.path()));
    for (const char* mark :
         {"Problem(", "fail(", "fail_at(", "refuse(", "mismatch = ", "mismatch(", "return fmt::format(\"'{}' is "}) {
      for (size_t at = code.find(mark); at != std::string::npos; at = code.find(mark, at + 1)) {
        const std::string statement = code.substr(at, code.find(";\n", at) - at);
        if (statement.find("ErrorKind") != std::string::npos) continue;  // of generated code
        for (const std::string& fragment : fragments(statement)) {
          EXPECT_NE(shown.find(fragment), std::string::npos)
              << file.path().filename().string() << ": no case shows \"" << fragment << "\"";
          ++messages;
        }
      }
    }
  }
  EXPECT_GT(messages, 300U);
}

TEST(Mutations, AreErrorsWithPositionsOrFineButNeverCrash) {
  std::mt19937_64 engine(deckle::testing::seed());
  const auto below = [&](size_t limit) { return static_cast<size_t>(engine() % limit); };
  const std::string path = temporary_path("mutation.yaml"), symbols = "()[]{}:,?!->*&|<>=.'\"0x%\n \t-#~";
  for (const char* stem : {"ops", "forms"}) {
    std::ifstream file(kFolder + "/golden/" + stem + ".yaml");
    const std::string original((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    ASSERT_FALSE(original.empty());
    for (int round = 0; round < 100; ++round) {
      std::string text = original;
      for (size_t changes = 1 + below(4); changes > 0; --changes) {
        const size_t at = below(text.size());
        if (below(2) == 0)
          text.erase(at, 1 + below(12));
        else
          text.insert(at, 1, symbols[below(symbols.size())]);
      }
      std::ofstream(path) << text;
      for (const std::string& problem : compile_file(path, "mutated.yaml").problems) {
        EXPECT_NE(problem.find(".yaml:"), std::string::npos) << "without a position: " << problem << "\n" << text;
      }
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace opgen::testing
