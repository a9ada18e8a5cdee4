#include "opgen/emit/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/emit/cpp_types.h"
#include "opgen/emit/nested.h"
#include "opgen/emit/op.h"
#include "opgen/emit/pointwise_kernel.h"
#include "opgen/text.h"

namespace opgen {
namespace {

const std::string kGenerated = "deckle/ops/generated/";

/// The ops of one entry file.
struct Stem {
  std::string name;
  std::vector<const Entry*> entries;
};

std::vector<Stem> stems_of(const Library& library) {
  std::vector<Stem> stems;
  for (const auto& entry : library.entries) {
    if (entry->external) continue;
    auto found = std::find_if(stems.begin(), stems.end(), [&](const Stem& stem) { return stem.name == entry->stem; });
    if (found == stems.end()) found = stems.insert(stems.end(), Stem{entry->stem, {}});
    found->entries.push_back(entry.get());
  }
  return stems;
}

bool uses(const std::vector<const Entry*>& entries, Base base) {
  for (const Entry* entry : entries) {
    for (const Argument& argument : entry->schema.arguments) {
      if (argument.type.base == base) return true;
    }
  }
  return false;
}

std::string public_header(const Stem& stem, const Library& library) {
  std::string text = "#pragma once\n\n" + file_head(stem.name, library) + "#include \"deckle/core/tensor.h\"\n";
  if (uses(stem.entries, Base::ragged)) text += "#include \"deckle/core/ragged_shape.h\"\n";
  if (uses(stem.entries, Base::plan)) text += "#include \"deckle/kernels/args/attention_plan.h\"\n";
  text += "\nnamespace deckle {\n\n";
  if (uses(stem.entries, Base::generator)) text += "class Generator;\n\n";
  std::string raw, native;
  for (const Entry* entry : stem.entries) {
    if (!entry->doc.empty()) text += "/// " + entry->doc + "\n";
    if (!entry->writes_argument())
      text += signature(*entry, Variant::functional, true) + ";\n";
    else
      text += signature(*entry, Variant::inplace, true) + ";\n";
    if (entry->inplace) text += signature(*entry, Variant::inplace, true) + ";\n";
    if (entry->out) text += signature(*entry, Variant::out, false) + ";\n";
    text += "\n";
    if (has_raw(*entry)) {
      raw += raw_signature(*entry, false, true) + ";\n";
      if (entry->inplace || entry->out) raw += raw_signature(*entry, true, false) + ";\n";
    }
    if (entry->body == Entry::Body::native) native += native_signature(*entry, true) + ";\n";
  }
  if (!raw.empty())
    text += "/// The same below autograd: no history, no tangents.\nnamespace raw {\n" + raw + "}  // namespace raw\n\n";
  if (!native.empty())
    text += "/// Written by hand, below autograd.\nnamespace native {\n" + native + "}  // namespace native\n\n";
  return text + "}  // namespace deckle\n";
}

std::string kernel_header(const Stem& stem, const Library& library) {
  std::string generated, written;
  std::set<std::string> seen;
  for (const Entry* entry : stem.entries) {
    if (entry->body == Entry::Body::pointwise)
      generated += wrapped("void " + entry->unique_name(), kernel_parameters(*entry), "") + ";\n";
    if (entry->body == Entry::Body::kernel && entry->kernels.count("cpu"))
      written += wrapped("void " + entry->kernels.at("cpu").function, kernel_parameters(*entry), "") + ";\n";
  }
  if (generated.empty() && written.empty()) return "";
  std::string text = "#pragma once\n\n" + file_head(stem.name, library) +
                     "#include <optional>\n#include <span>\n#include <string_view>\n\n"
                     "#include \"deckle/base/philox.h\"\n#include \"deckle/kernels/args/context.h\"\n"
                     "#include \"deckle/kernels/args/number.h\"\n#include \"deckle/kernels/args/view.h\"\n";
  if (uses(stem.entries, Base::plan)) text += "#include \"deckle/kernels/args/attention_plan.h\"\n";
  if (!written.empty()) text += "\nnamespace deckle::kernels::cpu {\n" + written + "}  // namespace deckle::kernels::cpu\n";
  if (!generated.empty())
    text += "\nnamespace deckle::kernels::cpu::generated {\n" + generated + "}  // namespace deckle::kernels::cpu::generated\n";
  return text;
}

struct EmittedOp {
  const Entry* entry;
  OpSource source;
};

std::string source_file(const Stem& stem, const std::vector<EmittedOp>& ops, const Library& library) {
  std::set<std::string> headers = {kGenerated + stem.name + ".h"};
  std::string body;
  bool kernels = false, shapes = false, generators = false, raggeds = false, limits = false;
  for (const EmittedOp& op : ops) {
    for (const Entry* called : op.source.calls) headers.insert(kGenerated + called->stem + ".h");
    const std::string all = op.source.raw + op.source.row + op.source.node + op.source.functions;
    kernels = kernels || !op.source.row.empty();
    shapes = shapes || all.find("shapes::") != std::string::npos;
    generators = generators || all.find("Generator") != std::string::npos;
    raggeds = raggeds || all.find("Ragged") != std::string::npos;
    limits = limits || all.find("numeric_limits") != std::string::npos;
    body +=
        fmt::format("// {}, from {}{}\n", op.entry->unique_name(), op.entry->at.file, op.entry->derived ? ": a derivative" : "");
    if (!op.source.row.empty() || !op.source.node.empty()) {
      body += "namespace {\n\n";
      if (!op.source.row.empty()) body += op.source.row + "\n";
      if (!op.source.node.empty()) body += op.source.node + "\n";
      body += "}  // namespace\n\n";
    }
    if (!op.source.raw.empty()) body += "namespace raw {\n" + op.source.raw + "}  // namespace raw\n\n";
    if (!op.source.functions.empty()) body += op.source.functions;
  }
  if (body.find("native::copy_") != std::string::npos) headers.insert(kGenerated + "shape.h");
  std::string text = file_head(stem.name, library) + fmt::format("#include \"{}{}.h\"\n\n", kGenerated, stem.name);
  if (limits) text += "#include <limits>\n";
  text += "#include <memory>\n\n#include \"deckle/autograd/support.h\"\n#include \"deckle/base/check.h\"\n";
  if (generators) text += "#include \"deckle/core/generator.h\"\n";
  if (raggeds) text += "#include \"deckle/core/ragged_shape.h\"\n";
  text +=
      "#include \"deckle/core/tensor_impl.h\"\n#include \"deckle/dispatch/kernel_row.h\"\n#include \"deckle/dispatch/view.h\"\n";
  headers.erase(kGenerated + stem.name + ".h");
  if (kernels) headers.insert(kGenerated + "kernels_" + stem.name + ".h");
  for (const std::string& header : headers) text += "#include \"" + header + "\"\n";
  text += "#include \"deckle/ops/launch.h\"\n";
  if (shapes) text += "#include \"deckle/ops/shapes.h\"\n";
  text += "\nnamespace deckle {\n\nusing autograd::Gradients;\nusing autograd::GradientSink;\n\n";
  return text + body + "}  // namespace deckle\n";
}

std::string kernel_file(const Stem& stem, const std::string& path, const std::vector<PointwiseKernel>& kernels,
                        const Library& library) {
  std::string text = file_head(stem.name, library);
  if (kernels.empty()) return text;
  text += "#include \"deckle/kernels/cpu/simd/targets.h\"\n\n#undef HWY_TARGET_INCLUDE\n";
  text += fmt::format("#define HWY_TARGET_INCLUDE \"{}\"\n", path);
  text += "#include <hwy/foreach_target.h>\n#include <hwy/highway.h>\n\n";
  text += fmt::format("#include \"{}kernels_{}.h\"\n", kGenerated, stem.name);
  text +=
      "#include \"deckle/kernels/cpu/pointwise/driver.h\"\n#include \"deckle/kernels/cpu/simd/loop.h\"\n#include "
      "\"deckle/kernels/cpu/simd/math.h\"\n\n";
  text += "HWY_BEFORE_NAMESPACE();\nnamespace deckle::kernels::cpu::HWY_NAMESPACE {\n\n";
  for (const PointwiseKernel& kernel : kernels) text += kernel.per_target;
  text +=
      "}  // namespace deckle::kernels::cpu::HWY_NAMESPACE\nHWY_AFTER_NAMESPACE();\n\n#if HWY_ONCE\nnamespace "
      "deckle::kernels::cpu {\n\n";
  for (const PointwiseKernel& kernel : kernels) text += kernel.exported;
  text += "\nnamespace generated {\n\n";
  for (const PointwiseKernel& kernel : kernels) text += kernel.function + "\n";
  return text + "}  // namespace generated\n}  // namespace deckle::kernels::cpu\n#endif\n";
}

}  // namespace

void emit_nested_files(const Library& library, Files& files) {
  for (const Stem& stem : stems_of(library)) {
    const NestedFiles nested = emit_nested(library, stem.name);
    // A stem without overloads still has its files: the build knows them by name.
    const std::string head = file_head(stem.name, library);
    files["deckle/nested/generated/" + stem.name + ".h"] = nested.header.empty() ? "#pragma once\n\n" + head : nested.header;
    files["deckle/nested/generated/nested_" + stem.name + ".cpp"] = nested.source.empty() ? head : nested.source;
  }
}

int shard_of(const std::string& name, int count) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 16777619u;
  return static_cast<int>(hash % static_cast<uint32_t>(count));
}

std::string file_head(const std::string& stem, const Library& library) {
  for (const auto& entry : library.entries) {
    if (entry->stem == stem && !entry->external)
      return fmt::format("// Generated from {}; change the entries, not this file.\n", entry->at.file);
  }
  return "// Generated from op entries; change those, not this file.\n";
}

Files emit_library(const Library& library, const OutputOptions& options, Problems& problems) {
  Files files;
  for (const Stem& stem : stems_of(library)) {
    const auto given = options.shards.find(stem.name);
    const int shards = given == options.shards.end() ? 1 : std::max(1, given->second);
    files[kGenerated + stem.name + ".h"] = public_header(stem, library);
    const std::string kernels = kernel_header(stem, library);
    if (!kernels.empty()) files[kGenerated + "kernels_" + stem.name + ".h"] = kernels;
    std::vector<std::vector<EmittedOp>> sources(static_cast<size_t>(shards));
    std::vector<std::vector<PointwiseKernel>> kernel_files(static_cast<size_t>(shards));
    for (const Entry* entry : stem.entries) {
      try {
        const size_t shard = static_cast<size_t>(shard_of(entry->unique_name(), shards));
        OpSource source = emit_op(*entry, library);
        if (entry->body == Entry::Body::pointwise) kernel_files[shard].push_back(emit_pointwise_kernel(*entry, library));
        if (entry->body != Entry::Body::composite_cpp) sources[shard].push_back({entry, std::move(source)});
      } catch (const Problem& problem) {
        problems.emplace_back(problem.what());
      }
    }
    for (int shard = 0; shard < shards; ++shard) {
      files[fmt::format("{}{}_{}.cpp", kGenerated, stem.name, shard)] =
          source_file(stem, sources[static_cast<size_t>(shard)], library);
      const std::string path = fmt::format("{}{}_kernels_{}.cpp", kGenerated, stem.name, shard);
      files[path] = kernel_file(stem, path, kernel_files[static_cast<size_t>(shard)], library);
    }
  }
  return files;
}

}  // namespace opgen
