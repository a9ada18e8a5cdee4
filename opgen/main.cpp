// opgen: compiles op entries to C++.
//
//   opgen --functions F.yaml --entries A.yaml=3 B.yaml=1 ... [--known C.yaml ...] --out DIR [--depfile FILE --target NAME]
//         [--root DIR] [--tests DIR] [--cuda]
//         [--library NAME --namespace SPACE --own-functions G.yaml --uses acme/ops/library.yaml ...
//          --include DIR ... --version DECKLE]
//   opgen dump NAME --functions F.yaml --entries A.yaml ... [--known C.yaml ...] [--root DIR] [--library NAME ... as above]
//   opgen site --functions F.yaml --entries A.yaml ... [--known C.yaml ...] [--root DIR] [--library NAME ... as above]
//   opgen check --functions native_functions.yaml --derivatives derivatives.yaml [--json | --summary]
//   opgen convert --functions native_functions.yaml --derivatives derivatives.yaml --layer LAYER.yaml
//
// --cuda: the build has CUDA; rows of kernels have those too, and expressions become them.
// A.yaml=3: the ops of A.yaml are spread over 3 files. Known entry files may be called in formulas but are not emitted.
// --library: the ops of another library than Deckle, in a namespace of their own; its formulas may call those of the libraries
// that it uses.
// Messages name files relative to --root. Exit code 1 with every problem on stderr, one a line, and nothing written.
// dump prints an op as printers see it, every name of its formulas resolved; site prints all as JSON, formulas as LaTeX.
// check and convert read PyTorch's two files: docs/from_aten.md.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgen/compile.h"
#include "opgen/emit/dump/dump.h"
#include "opgen/emit/site/site.h"
#include "opgen/readers/aten/command.h"
#include "opgen/readers/libraries/library.h"
#include "opgen/resolve/kernel_rules.h"
#include "opgen/text/strings.h"

namespace {

struct Arguments {
  std::vector<std::string> functions, own_functions, entries, known, uses, include;
  std::string out, depfile, target, root, tests, dump, library, space, version;
  opgen::OutputOptions output;
  bool core = false;
  bool site = false;
};

[[noreturn]] void usage(const std::string& message) {
  fmt::print(
      stderr,
      "opgen: {}\n"
      "usage: opgen --functions F.yaml --entries A.yaml[=FILES]... --out DIR [--known C.yaml...] [--root DIR] [--tests DIR]\n"
      "             [--depfile FILE --target NAME] [--cuda] [LIBRARY]\n"
      "       opgen dump NAME --functions F.yaml --entries A.yaml... [--known C.yaml...] [--root DIR] [LIBRARY]\n"
      "       opgen site --functions F.yaml --entries A.yaml... [--known C.yaml...] [--root DIR] [LIBRARY]\n"
      "LIBRARY: --library NAME --namespace SPACE --version DECKLE [--own-functions G.yaml]\n"
      "         [--uses acme/ops/library.yaml... --include DIR...]\n",
      message);
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  const std::map<std::string, std::string*> texts = {{"--out", &arguments.out},         {"--depfile", &arguments.depfile},
                                                     {"--target", &arguments.target},   {"--root", &arguments.root},
                                                     {"--tests", &arguments.tests},     {"--library", &arguments.library},
                                                     {"--namespace", &arguments.space}, {"--version", &arguments.version}};
  const std::map<std::string, std::vector<std::string>*> lists = {{"--functions", &arguments.functions},
                                                                  {"--known", &arguments.known},
                                                                  {"--own-functions", &arguments.own_functions},
                                                                  {"--uses", &arguments.uses},
                                                                  {"--include", &arguments.include}};
  std::string option;
  const bool dumps = argc > 2 && std::string_view(argv[1]) == "dump";
  if (dumps) arguments.dump = argv[2];
  arguments.site = argc > 1 && std::string_view(argv[1]) == "site";
  for (int i = dumps ? 3 : arguments.site ? 2 : 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) == 0) {
      option = word;
      if (option == "--core") arguments.core = true;
      if (option == "--cuda") arguments.output.cuda = true;
      continue;
    }
    if (const auto text = texts.find(option); text != texts.end()) {
      *text->second = word;
    } else if (const auto list = lists.find(option); list != lists.end()) {
      list->second->push_back(word);
    } else if (option == "--entries") {
      // The number of files follows the last '=' after the folder: a folder may hold one too.
      const size_t equals = word.find('=', word.rfind('/') == std::string::npos ? 0 : word.rfind('/'));
      const std::string path = word.substr(0, equals);
      arguments.entries.push_back(path);
      if (equals == std::string::npos) continue;
      const std::optional<int64_t> files = opgen::whole_number(word.substr(equals + 1));
      if (!files || *files < 1 || *files > 1000) usage(fmt::format("'{}': the number of files after '=' is 1 to 1000", word));
      arguments.output.shards[std::filesystem::path(path).stem().string()] = static_cast<int>(*files);
    } else {
      usage(fmt::format("unexpected '{}'", word));
    }
  }
  if (arguments.entries.empty() || (arguments.out.empty() && !dumps && !arguments.site)) usage("--entries and --out are needed");
  if (arguments.library.empty() && (!arguments.space.empty() || !arguments.uses.empty()))
    usage("--namespace and --uses belong to a --library");
  if (const std::string why = opgen::why_not_a_namespace(arguments.space); !arguments.library.empty() && !why.empty()) usage(why);
  return arguments;
}

std::string display_name(const std::string& path, const std::string& root) {
  if (root.empty()) return path;
  const std::string relative = std::filesystem::path(path).lexically_relative(root).generic_string();
  return relative.empty() || relative.rfind("..", 0) == 0 ? path : relative;
}

/// What is compiled, and what its formulas may call: Deckle's entries, those of the libraries that it uses.
opgen::Inputs inputs_of(const Arguments& arguments, const std::vector<opgen::OpLibrary>& libraries) {
  const auto add = [&](const std::vector<std::string>& paths, const opgen::Home& home, std::vector<opgen::Input>& inputs) {
    for (const std::string& path : paths) inputs.push_back({path, display_name(path, arguments.root), home});
  };
  opgen::Inputs inputs;
  inputs.root = arguments.root;
  const opgen::Home deckle{"deckle", arguments.library.empty()};
  inputs.home = arguments.library.empty() ? deckle : opgen::Home{arguments.space, false};
  add(arguments.functions, deckle, inputs.functions);
  add(arguments.known, deckle, inputs.known);
  for (const opgen::OpLibrary& library : libraries) {
    add(library.functions, library.home, inputs.functions);
    add(library.entries, library.home, inputs.known);
  }
  add(arguments.own_functions, inputs.home, inputs.functions);
  add(arguments.entries, inputs.home, inputs.entries);
  return inputs;
}

std::vector<opgen::OpLibrary> libraries_of(const Arguments& arguments, opgen::Problems& problems) {
  return opgen::load_libraries(arguments.uses, arguments.include, arguments.library, arguments.version, problems);
}

/// Prints what there is to say of the entries, once they are analysed; the exit code.
template <typename Print>
int run_analysis(const Arguments& arguments, const Print& print) {
  opgen::Problems problems;
  const std::vector<opgen::OpLibrary> libraries = libraries_of(arguments, problems);
  if (!problems.empty()) return opgen::report(problems);
  const opgen::Program program = opgen::analyze(inputs_of(arguments, libraries), false, problems);
  return problems.empty() ? print(program) : opgen::report(problems);
}

int dump(const opgen::Program& program, const std::string& name) {
  const std::vector<const opgen::Op*> found = program.overloads_of(name);
  for (const opgen::Op* op : found) fmt::print("{}", opgen::dump::text_of(*op));
  if (!found.empty()) return 0;
  fmt::print(stderr, "opgen: no op is named '{}'{}\n", name, opgen::did_you_mean(name, program.op_names()));
  return 1;
}

int site(const opgen::Program& program) {
  fmt::print("{}", opgen::site::json_of(program));
  return 0;
}

/// A path in a dependency file.
std::string escape(const std::string& path) {
  std::string text;
  for (const char character : path) {
    if (character == ' ' || character == '#') text += '\\';
    if (character == '$') text += '$';
    text += character;
  }
  return text;
}

int run(const Arguments& arguments) {
  opgen::Problems problems;
  std::vector<std::string> notes;
  const std::vector<opgen::OpLibrary> libraries = libraries_of(arguments, problems);
  if (!problems.empty()) return opgen::report(problems);
  const opgen::Inputs inputs = inputs_of(arguments, libraries);
  const opgen::Files files =
      opgen::compile(inputs, {arguments.output, arguments.core, !arguments.tests.empty()}, problems, notes);
  if (!problems.empty()) return opgen::report(problems);
  for (const std::string& note : notes) fmt::print("{}\n", note);
  for (const auto& [path, contents] : files) opgen::write_if_changed(arguments.out + "/" + path, contents);
  if (!arguments.depfile.empty()) {
    std::string depfile = escape(arguments.target) + ":";
    const auto depends_on = [&](const std::string& path) { depfile += " \\\n  " + escape(path); };
    for (const auto* read : {&inputs.functions, &inputs.known, &inputs.entries}) {
      for (const opgen::Input& input : *read) depends_on(input.path);
    }
    for (const opgen::OpLibrary& library : libraries) depends_on(library.file);
    for (const std::string& path : arguments.core ? opgen::watched_paths(arguments.root) : std::vector<std::string>())
      depends_on(path);
    opgen::write_if_changed(arguments.depfile, depfile + "\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "check")
      return opgen::aten::check_command(std::vector<std::string>(argv + 2, argv + argc));
    if (argc > 1 && std::string_view(argv[1]) == "convert")
      return opgen::aten::convert_command(std::vector<std::string>(argv + 2, argv + argc));
    const Arguments arguments = parse(argc, argv);
    if (arguments.site) return run_analysis(arguments, site);
    if (arguments.dump.empty()) return run(arguments);
    return run_analysis(arguments, [&](const opgen::Program& program) { return dump(program, arguments.dump); });
  } catch (const std::exception& error) {
    fmt::print(stderr, "opgen: {}\n", error.what());
    return 1;
  }
}
