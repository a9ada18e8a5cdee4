#include "opgen/emit/nested/nested.h"

#include <fmt/format.h>

#include <set>

#include "opgen/emit/common/layout.h"
#include "opgen/emit/nested/overloads.h"
#include "opgen/text/strings.h"

namespace opgen::nested {

void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>&) {
  cpp::Methods methods("NestedTensor");
  std::vector<std::string> method_headers = {"deckle/core/generator.h"};
  for (const Stem& stem : stems_of(program, options)) {
    const Home& home = stem.home;
    std::string header, source;
    std::set<std::string> includes = {ops_header(home, stem.name)};
    for (const Op* op : stem.ops) {
      if (!has_overloads(*op)) continue;
      emit_overloads(program, *op, header, source, methods);
      for (const Op* segment : program.overloads_of(op->nested.segment))
        includes.insert(ops_header(segment->home, segment->stem));
    }
    // A stem without overloads still has its files: the build knows them by name.
    const std::string from = home.plain ? fmt::format("ops/{}.yaml", stem.name) : stem.source;
    const std::string head = fmt::format("// Overloads for nested tensors, from {}. Made by opgen; not for editing.\n", from);
    std::string source_file = file_head(stem), header_file = "#pragma once\n\n" + source_file;
    if (!header.empty()) {
      method_headers.push_back(nested_header(home, stem.name));
      header_file = head + fmt::format(
                               "\n#pragma once\n\n#include \"deckle/nested/nested_tensor.h\"\n#include \"{0}\"\n\n"
                               "namespace {1} {{\n\n{2}}}  // namespace {1}\n",
                               ops_header(home, stem.name), home.space, with_deckle_names(home, header));
    }
    if (source.find("autograd::Converted") != std::string::npos) includes.insert("deckle/autograd/autocast.h");
    if (source.find("if (!(") != std::string::npos) includes.insert("deckle/base/check.h");
    if (source.find("shapes::") != std::string::npos) {
      includes.insert("deckle/ops/shapes.h");
      for (const auto& [space, given] : program.headers) {
        if (!given.shapes.empty() && source.find(space + "::shapes::") != std::string::npos) includes.insert(given.shapes);
      }
    }
    std::string lines;
    for (const std::string& include : includes) lines += fmt::format("#include \"{}\"\n", include);
    if (!source.empty())
      source_file =
          head +
          fmt::format(
              "\n#include \"{0}\"\n\n#include \"deckle/nested/broadcast.h\"\n"
              "#include \"deckle/nested/groups.h\"\n#include \"deckle/nested/support.h\"\n{1}#include \"deckle/ops/launch.h\"\n\n"
              "namespace {2} {{\n\n{3}{4}}}  // namespace {2}\n",
              nested_header(home, stem.name), lines, home.space, home.plain ? "" : "using namespace deckle;\n\n",
              with_deckle_names(home, source));
    files.add(nested_header(home, stem.name), header_file, stem.source);
    files.add(nested_source(home, stem.name), source_file, stem.source);
  }
  if (methods.empty()) return;
  files.add("deckle/nested/generated/nested_methods.h", methods.declarations(), "the methods of NestedTensor");
  files.add("deckle/nested/generated/nested_methods.cpp", methods.definitions(method_headers), "the methods of NestedTensor");
}

}  // namespace opgen::nested
