// Libraries beside Deckle: what opgen says of their descriptions, and the code of a library that uses two others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "opgen/readers/libraries/library.h"
#include "opgen/text/strings.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

const std::string kLibraries = kFolder + "/libraries";

/// Without the folder of these tests.
Problems shortened(Problems problems) {
  for (std::string& problem : problems) {
    for (const std::string& folder : {kLibraries + "/", kFolder + "/"}) {
      for (size_t at; (at = problem.find(folder)) != std::string::npos;) problem.erase(at, folder.size());
    }
  }
  return problems;
}

std::vector<OpLibrary> load(const std::string& name, Problems& problems) {
  return load_libraries({name + "/ops/library.yaml"}, {kFolder + "/no_such_folder", kLibraries}, "mine", "0.1.0", problems);
}

Problems problems_of(const std::string& name) {
  Problems problems;
  EXPECT_TRUE(load(name, problems).empty());
  return shortened(problems);
}

TEST(Libraries, AreRefusedWithPlaceAndWhatWouldBeRight) {
  const auto says = [](const std::string& name, const std::string& problem) {
    EXPECT_EQ(problems_of(name), Problems{name + "/ops/library.yaml:" + problem});
  };
  says("old", "3:9: 'old' is made for Deckle 0.0.9, and this is 0.1.0: build and install 'old' with this Deckle");
  says("cut", "1:1: a library file has 'entries:', and this one ends before it: build the library again");
  says("gone", "4:11: the file gone/ops/gone.yaml does not exist: install the library again");
  says("lost",
       "5:8: the file 'nowhere/ops/library.yaml' is in none of the include folders: find_package() the library that it belongs "
       "to");
  says("broken", "3:10: not valid YAML: end of map not found");
  says("spaced", "2:12: 'deckle::spaced' is Deckle's own namespace: give the library one of its own");
  says("standard",
       "2:12: the namespace 'acme::std' cannot be: 'std' is a namespace that the generated code uses: choose another name");
  says("part", "2:12: the namespace 'part::kernels' cannot be: 'kernels' is a namespace of the library: choose another name");
  says("digit", "2:12: '3d' is no namespace: write names with '::' between them, as in acme::ops");
  says("listed", "1:1: a library file has 'library:', 'namespace:', 'deckle:' and 'entries:'");
  says("one_use", "5:7: 'uses' is a list of library files");
  says("one_entry", "4:10: a list of files is wanted: [ops.yaml]");
  says("no_such", "1:1: the file cannot be read");
  says("nameless", "1:10: '' is no name of a library beside Deckle: build the library again");
  says("deckles", "1:10: 'deckle' is no name of a library beside Deckle: build the library again");
  says("macro", "2:12: the namespace 'acme::NULL' cannot be: 'NULL' is a macro of C: choose another name");
  says("compilers", "2:12: the namespace '__linux__' cannot be: names with '__', or '_' in front, are the compiler's");
  says(std::string(300, 'a'), "1:1: the file cannot be read");
  says("newer", "5:9: 'newer' is made for Deckle 0.2.0, and this is 0.1.0: build and install 'newer' with this Deckle");
}

TEST(Libraries, HaveNamespacesOfTheirOwn) {
  EXPECT_EQ(problems_of("one_space"),
            Problems{"same_space/ops/library.yaml:2:12: the libraries 'base' and 'same_space' have one namespace, 'base': give "
                     "one of them another"});
}

TEST(Libraries, HaveNamespacesThatFilesCanBeNamedAfter) {
  EXPECT_EQ(why_not_a_namespace(std::string(200, 'a')), "");
  EXPECT_EQ(why_not_a_namespace(std::string(300, 'a')),
            "a namespace of 300 letters is too long, as files are named after it: 200 are allowed");
}

TEST(Libraries, HaveNoPartOfTheirNamespaceInCommonWithWhatGeneratedCodeNames) {
  for (const std::string taken : {"deckle", "std", "hwy", "fmt"}) {
    for (const std::string& space : {taken, "acme::" + taken, taken + "::acme", "acme::" + taken + "::ops"})
      EXPECT_NE(why_not_a_namespace(space), "") << space;
    for (const std::string& space : {taken + "s", "acme::my_" + taken}) EXPECT_EQ(why_not_a_namespace(space), "") << space;
  }
}

TEST(Libraries, HaveNamesOfTheirOwn) {
  EXPECT_EQ(problems_of("two_of_a_name"),
            Problems{"twice/ops/library.yaml:1:10: the library 'base' stands in two files, here and in base/ops/library.yaml: "
                     "leave one out"});
}

TEST(Libraries, DoNotUseEachOther) {
  EXPECT_EQ(
      problems_of("loop"),
      Problems{"loop_back/ops/library.yaml:5:8: libraries cannot use each other: loop uses loop_back uses loop; move the ops "
               "that both need into one of their own"});
  EXPECT_EQ(
      problems_of("uses_mine"),
      Problems{"uses_mine/ops/library.yaml:5:8: libraries cannot use each other: mine uses uses_mine uses mine; move the ops "
               "that both need into one of their own"});
}

TEST(Libraries, CutAnywhereAreProblemsWithAPosition) {
  const std::filesystem::path folder = std::filesystem::path(temporary_path("cut")) / "acme" / "ops";
  std::filesystem::create_directories(folder);
  std::ifstream file(kLibraries + "/written/ops/library.yaml");  // as deckle_add_ops writes it
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_GT(whole.size(), 100u) << "the description is not there";
  std::filesystem::create_directories(folder / "../../acme/ops");
  for (size_t length = 0; length < whole.size() - 1; ++length) {
    std::ofstream cut(folder / "library.yaml");
    cut << whole.substr(0, length);
    cut.close();
    ASSERT_TRUE(cut) << folder << " cannot be written";
    Problems problems;
    load_libraries({"acme/ops/library.yaml"}, {folder.parent_path().parent_path().string(), kLibraries}, "mine", "0.1.0",
                   problems);
    ASSERT_EQ(problems.size(), 1u) << whole.substr(0, length);
    EXPECT_NE(problems[0].find("library.yaml:"), std::string::npos) << problems[0];
  }
  std::filesystem::remove_all(folder.parent_path().parent_path());
}

/// Compiles a file of tests/opgen/own as a library that uses acme, which uses base.
Outcome compile_own(const std::string& entries, const std::string& functions = "") {
  Outcome outcome;
  Inputs inputs;
  inputs.root = kFolder + "/own";
  inputs.home = {"mine::ops_of", false};
  const Home deckle{"deckle", false};
  inputs.functions = {{kFolder + "/functions.yaml", "functions.yaml", deckle}};
  inputs.known = {{kFolder + "/base.yaml", "base.yaml", deckle}};
  for (const OpLibrary& library : load("acme", outcome.problems)) {
    for (const std::string& path : library.functions) inputs.functions.push_back({path, path, library.home});
    for (const std::string& path : library.entries) inputs.known.push_back({path, path, library.home});
  }
  if (!functions.empty()) inputs.functions.push_back({inputs.root + "/" + functions, functions, inputs.home});
  if (!entries.empty()) inputs.entries = {{inputs.root + "/" + entries, entries, {}}};
  CompileOptions options;
  options.tests = true;
  outcome.files = compile(inputs, options, outcome.problems, outcome.notes);
  outcome.problems = shortened(outcome.problems);
  return outcome;
}

TEST(Libraries, HaveNoOpThatAnotherHas) {
  Outcome outcome;
  Inputs inputs;
  inputs.home = {"mine", false};
  for (const OpLibrary& library : load("again", outcome.problems)) {
    for (const std::string& path : library.entries) inputs.known.push_back({path, path, library.home});
  }
  ASSERT_EQ(outcome.problems, Problems());
  compile(inputs, {}, outcome.problems, outcome.notes);
  EXPECT_EQ(shortened(outcome.problems),
            Problems{"again/ops/one.yaml:1:9: 'of_two' is an op of 'one_op' already, at one_op/ops/one.yaml:1:9: formulas could "
                     "not tell them apart; give this one another name"});
}

TEST(Libraries, SayWhoseNamesAreTaken) {
  EXPECT_EQ(compile_own("same_op.yaml").problems,
            Problems{"same_op.yaml:1:9: 'base_op' is an op of 'base' already, at base/ops/base.yaml:1:9: formulas could not tell "
                     "them apart; give this one another name"});
  EXPECT_EQ(compile_own("", "same_function.yaml").problems,
            Problems{"same_function.yaml:3:12: 'bump' is a scalar function of 'base' already: give this one another name"});
  EXPECT_EQ(compile_own("no_kernel.yaml").problems,
            Problems{"no_kernel.yaml:3:17: the kernel file kernels/nowhere.cpp is neither beside the entries nor in own"});
  EXPECT_EQ(
      compile_own("cuda_kernel.yaml").problems,
      Problems{"cuda_kernel.yaml:3:32: kernels of libraries beside Deckle are for the CPU, and 'cuda' of 'own_op' would never "
               "be called: leave it out"});
  EXPECT_EQ(
      compile_own("", "no_headers.yaml").problems,
      Problems{"no_headers.yaml:2:3: scalar functions are C++ in two headers: add 'headers: {simd: on vectors, reference: in "
               "double, for tests}'"});
  EXPECT_EQ(compile_own("", "no_header.yaml").problems,
            Problems{"no_header.yaml:2:17: 'own/math.h\"' is no header as '#include' names it: acme/math.h"});
  EXPECT_EQ(compile_own("", "no_shapes.yaml").problems,
            Problems{"no_shapes.yaml:2:3: helpers are C++ in a header: add 'headers: {shapes: the file that declares them}'"});
}

TEST(Libraries, CallEachOthersOpsFunctionsAndHelpers) {
  const Outcome outcome = compile_own("chained.yaml");
  ASSERT_EQ(outcome.problems, Problems());
  std::set<std::string> generated, expected_names;
  for (const auto& [path, contents] : outcome.files) {
    std::string flat = path;
    std::replace(flat.begin(), flat.end(), '/', '.');
    const std::string golden = kFolder + "/own/expected/" + flat + ".txt";
    generated.insert(flat + ".txt");
    if (std::getenv("OPGEN_UPDATE")) write_if_changed(golden, contents);
    std::ifstream file(golden);
    const std::string expected((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_TRUE(contents == expected) << golden << " differs; OPGEN_UPDATE=1 rewrites it";
  }
  for (const auto& file : std::filesystem::directory_iterator(kFolder + "/own/expected"))
    expected_names.insert(file.path().filename().string());
  EXPECT_EQ(generated, expected_names);
  EXPECT_FALSE(generated.empty());
}

TEST(Libraries, HaveTheirKernelsWhereTheirEntriesSay) {
  const Outcome outcome = compile_own("chained.yaml");
  ASSERT_EQ(outcome.files.count("mine/ops_of/ops/op_table.cpp"), 1u);
  const std::string& table = outcome.files.at("mine/ops_of/ops/op_table.cpp");
  EXPECT_NE(table.find("\"cpu: chained.cpp    cuda: none yet\""), std::string::npos) << table;
}

}  // namespace
}  // namespace opgen::testing
