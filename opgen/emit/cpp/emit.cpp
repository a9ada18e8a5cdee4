#include "opgen/emit/cpp/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "opgen/analyze/calls.h"
#include "opgen/analyze/views.h"
#include "opgen/emit/common/layout.h"
#include "opgen/emit/cpp/declared.h"
#include "opgen/emit/cpp/inplace.h"
#include "opgen/emit/cpp/method_types.h"
#include "opgen/emit/cpp/methods.h"
#include "opgen/emit/cpp/node.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/pointwise_kernel.h"
#include "opgen/emit/cpp/raw.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/cpp/wrapper.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

bool uses(const std::vector<const Op*>& ops, Base base) {
  for (const Op* op : ops) {
    for (const Argument& argument : op->schema.arguments) {
      if (argument.type.base == base) return true;
    }
  }
  return false;
}

std::string public_header(const Stem& stem) {
  std::string text = "#pragma once\n\n" + file_head(stem) + "#include \"deckle/core/tensor.h\"\n";
  if (std::any_of(stem.ops.begin(), stem.ops.end(), [](const Op* op) { return op->takes_rows(); }))
    text += "#include \"deckle/core/row_operand.h\"\n";
  if (uses(stem.ops, Base::ragged)) text += "#include \"deckle/core/ragged_shape.h\"\n";
  if (uses(stem.ops, Base::plan)) text += "#include \"deckle/kernels/args/attention_plan.h\"\n";
  const bool generators = uses(stem.ops, Base::generator);
  text += type_includes(stem, false);
  if (generators && !stem.home.plain) text += "#include \"deckle/core/generator.h\"\n";
  text += "\nnamespace " + stem.home.space + " {\n\n";
  if (generators && stem.home.plain) text += "class Generator;\n\n";
  for (const RecordType* record : stem.records) text += print_record(*record);
  std::string raw, native, composite, detail, rows;
  for (const Op* op : stem.ops) {
    std::string& functions = op->derived ? detail : text;
    if (op->takes_rows()) rows += row_signature(*op, true) + ";\n";
    if (!op->takes_rows() || !op->derived) {
      functions += print_options(*op);
      if (!op->doc.empty()) functions += "/// " + op->doc + "\n";
      for (const Variant variant : {Variant::functional, Variant::inplace}) {
        const bool inplace = variant == Variant::inplace;
        if (inplace ? !op->writes_argument() && !op->inplace : op->writes_argument()) continue;
        functions += signature(*op, variant, true) + ";\n";
        functions += options_alone(*op, inplace && !op->schema.results.empty() ? "Tensor" : public_return_type(*op),
                                   variant_name(*op, variant), public_parameters(*op, true));
        if (!inplace && shows_self(*op)) functions += of_a_temporary(*op);
      }
      if (op->out) functions += signature(*op, Variant::out, op->has_options()) + ";\n";
      functions += "\n";
    }
    if (op->has_raw()) {
      raw += raw_signature(*op, false, true) + ";\n";
      if (op->inplace || op->out) raw += raw_signature(*op, true, false) + ";\n";
    }
    if (op->body == Op::Body::composite_cpp) composite += composite_signature(*op) + ";\n";
    if (op->body == Op::Body::native) native += native_signature(*op, true) + ";\n";
  }
  if (!detail.empty())
    text += "// Derivatives of these ops, fused.\nnamespace detail {\n\n" + detail + "}  // namespace detail\n\n";
  if (!rows.empty())
    text += "// Pointwise ops and their derivatives, fused, on tensors and on rows that repeat.\nnamespace detail {\n\n" + rows +
            "\n}  // namespace detail\n\n";
  if (!raw.empty())
    text += "/// The same below autograd: no history, no tangents.\nnamespace raw {\n" + raw + "}  // namespace raw\n\n";
  if (!native.empty())
    text += "/// Written by hand, below autograd.\nnamespace native {\n" + native + "}  // namespace native\n\n";
  if (!composite.empty())
    text += "/// Written by hand, of public ops.\nnamespace composite {\n" + composite + "}  // namespace composite\n\n";
  return with_deckle_names(stem.home, text) + "}  // namespace " + stem.home.space + "\n";
}

std::string kernel_header(const Stem& stem, bool cuda) {
  std::string generated, written, written_cuda;
  for (const Op* op : stem.ops) {
    if (op->body == Op::Body::pointwise) generated += wrap("void " + op->unique_name(), kernel_parameters(*op), "") + ";\n";
    if (op->body == Op::Body::kernel && op->kernels.count("cpu"))
      written += wrap("void " + op->kernels.at("cpu").function, kernel_parameters(*op), "") + ";\n";
    if (cuda && op->body == Op::Body::kernel && op->kernels.count("cuda"))
      written_cuda += wrap("void " + op->kernels.at("cuda").function, kernel_parameters(*op), "") + ";\n";
  }
  if (generated.empty() && written.empty()) return "";
  std::string text = "#pragma once\n\n" + file_head(stem) +
                     "#include <optional>\n#include <span>\n#include <string_view>\n\n"
                     "#include \"deckle/base/philox.h\"\n#include \"deckle/kernels/args/context.h\"\n"
                     "#include \"deckle/kernels/args/number.h\"\n#include \"deckle/kernels/args/view.h\"\n";
  if (uses(stem.ops, Base::plan)) text += "#include \"deckle/kernels/args/attention_plan.h\"\n";
  text += type_includes(stem, true);
  const auto within = [&](const std::string& space, const std::string& functions) {
    if (!functions.empty())
      text += fmt::format("\nnamespace {0} {{\n{1}}}  // namespace {0}\n", space, with_deckle_names(stem.home, functions));
  };
  within(stem.home.space + "::kernels::cpu", written);
  within(stem.home.space + "::kernels::cpu::generated", generated);
  within(stem.home.space + "::kernels::cuda", written_cuda);
  if (cuda) within(stem.home.space + "::kernels::cuda::generated", generated);
  return text;
}

/// The C++ of one op, below its head comment.
struct EmittedOp {
  const Op* op;
  RawText raw;
  std::string node;
  std::string functions;
  std::string on_rows;  // in namespace detail
};

EmittedOp emit_op(const Op& op, bool cuda) {
  EmittedOp emitted{&op, {}, "", "", ""};
  if (op.has_raw()) emitted.raw = print_raw(op, cuda);
  if (op.is_composite()) {
    emitted.functions = op.body == Op::Body::composite ? print_composite(op) : print_composite_cpp(op);
    return emitted;
  }
  NodePlan plan;
  if (op.has_node()) {
    plan = plan_node(op);
    emitted.node = print_node(op, plan);
  }
  if (op.writes_argument()) {
    emitted.functions = print_inplace(op, plan);
  } else {
    (op.takes_rows() ? emitted.on_rows : emitted.functions) = print_functional(op, plan);
    if (op.takes_rows() && !op.derived) emitted.functions = print_on_tensors(op);
    if (op.inplace) emitted.functions += print_inplace(op, plan);
    if (op.out) emitted.functions += print_out(op);
  }
  return emitted;
}

/// Below `namespace`: another library's code knows Deckle's names, and its own hide them.
std::string open_namespaces(const Home& home) {
  return fmt::format("\nnamespace {} {{\n\n{}", home.space, home.plain ? "" : "using namespace deckle;\n");
}

std::string source_file(const Stem& stem, const std::vector<EmittedOp>& ops, const Program& program) {
  const std::string own_header = ops_header(stem.home, stem.name);
  std::set<std::string> headers = {own_header};
  std::string body;
  bool kernels = false, shapes = false, generators = false, raggeds = false, limits = false, copies = false, clones = false,
       elements = false, converts = false;
  for (const EmittedOp& emitted : ops) {
    const Op& op = *emitted.op;
    for (const Op* called : calls_of(op)) headers.insert(ops_header(called->home, called->stem));
    const std::string all = emitted.raw.functions + emitted.raw.row + emitted.node + emitted.functions + emitted.on_rows;
    kernels = kernels || !emitted.raw.row.empty();
    shapes = shapes || all.find("shapes::") != std::string::npos;
    generators = generators || all.find("Generator") != std::string::npos;
    raggeds = raggeds || all.find("Ragged") != std::string::npos;
    limits = limits || all.find("numeric_limits") != std::string::npos;
    converts = converts || op.autocast.to != AutocastRule::To::nothing;
    elements = elements || all.find("element(") != std::string::npos;
    copies = copies || all.find("native::copy_") != std::string::npos;
    clones = clones || all.find("clone(self)") != std::string::npos;
    body += fmt::format("// {}, from {}{}\n", op.unique_name(), op.at.file.text(), op.derived ? ": a derivative" : "");
    if (!emitted.raw.row.empty() || !emitted.node.empty()) {
      body += "namespace {\n\n";
      if (!emitted.raw.row.empty()) body += emitted.raw.row + "\n";
      if (!emitted.node.empty()) body += emitted.node + "\n";
      body += "}  // namespace\n\n";
    }
    if (!emitted.raw.functions.empty()) body += "namespace raw {\n" + emitted.raw.functions + "}  // namespace raw\n\n";
    if (!emitted.on_rows.empty()) body += "namespace detail {\n\n" + emitted.on_rows + "}  // namespace detail\n\n";
    if (!emitted.functions.empty())
      body += op.derived ? "namespace detail {\n\n" + emitted.functions + "}  // namespace detail\n\n" : emitted.functions;
  }
  for (const auto& [needed, op] : {std::pair(copies, "copy_"), std::pair(clones, "clone")}) {
    for (const Op* called : needed ? program.overloads_of(op) : std::vector<const Op*>())
      headers.insert(ops_header(called->home, called->stem));
  }
  std::string text = file_head(stem) + fmt::format("#include \"{}\"\n\n", own_header);
  if (limits) text += "#include <limits>\n";
  text += "#include <memory>\n\n";
  if (converts) text += "#include \"deckle/autograd/autocast.h\"\n";
  text += "#include \"deckle/autograd/support.h\"\n#include \"deckle/base/check.h\"\n";
  if (elements) text += "#include \"deckle/core/element.h\"\n";
  if (generators) text += "#include \"deckle/core/generator.h\"\n";
  if (raggeds) text += "#include \"deckle/core/ragged_shape.h\"\n";
  text +=
      "#include \"deckle/core/tensor_impl.h\"\n#include \"deckle/dispatch/kernel_row.h\"\n#include \"deckle/dispatch/view.h\"\n";
  headers.erase(own_header);
  if (kernels) headers.insert(kernels_header(stem.home, stem.name));
  if (shapes) {
    for (const auto& [space, given] : program.headers) {
      if (!given.shapes.empty() && body.find(space + "::shapes::") != std::string::npos) headers.insert(given.shapes);
    }
  }
  if (body.find("launch::MemoryOrder") != std::string::npos) headers.insert("deckle/ops/memory_order.h");
  if (body.find("launch::SlicedAllocation") != std::string::npos) headers.insert("deckle/ops/sliced_allocation.h");
  for (const std::string& header : headers) text += "#include \"" + header + "\"\n";
  text += "#include \"deckle/ops/launch.h\"\n";
  if (shapes) text += "#include \"deckle/ops/shapes.h\"\n";
  text += open_namespaces(stem.home) + "using autograd::Gradients;\nusing autograd::GradientSink;\n\n";
  return text + body + "}  // namespace " + stem.home.space + "\n";
}

/// What other libraries' kernels use of Deckle's for each instruction set, and the scalar functions of the libraries they use.
std::string used_per_target(const Home& home, const Functions& functions, const std::string& code) {
  if (home.plain) return "";
  std::string text = "namespace hn = ::hwy::HWY_NAMESPACE;\n";
  const auto use = [&](const Home& of, const std::string& name) {
    if (of.space != home.space) text += fmt::format("using ::{}::kernels::cpu::HWY_NAMESPACE::{};\n", of.space, name);
  };
  for (const char* name :
       {"damped", "less_equal", "greater_equal", "not_equal", "blocks", "blocks_with_integers", "blocks_of_integers"}) {
    if (code.find(name + std::string(std::string_view(name).starts_with("blocks") ? "<" : "(")) != std::string::npos)
      use({}, name);
  }
  for (const auto& [name, function] : functions) {
    if (code.find(name + "(d, ") != std::string::npos) use(function.home, name);
  }
  return text + "\n";
}

std::string kernel_file(const Stem& stem, const std::string& path, const std::vector<PointwiseKernel>& kernels,
                        const Program& program) {
  std::string text = file_head(stem);
  if (kernels.empty()) return text;
  text += "#include \"deckle/kernels/cpu/simd/targets.h\"\n\n#undef HWY_TARGET_INCLUDE\n";
  text += fmt::format("#define HWY_TARGET_INCLUDE \"{}\"\n", path);
  text += "#include <hwy/foreach_target.h>\n#include <hwy/highway.h>\n\n";
  text += fmt::format("#include \"{}\"\n", kernels_header(stem.home, stem.name));
  text +=
      "#include \"deckle/kernels/cpu/pointwise/driver.h\"\n#include \"deckle/kernels/cpu/simd/loop.h\"\n#include "
      "\"deckle/kernels/cpu/simd/math.h\"\n";
  for (const auto& [space, headers] : program.headers) {
    if (!headers.simd.empty()) text += fmt::format("#include \"{}\"\n", headers.simd);
  }
  const std::string space = stem.home.space + "::kernels::cpu";
  std::string per_target, exported, functions;
  for (const PointwiseKernel& kernel : kernels) {
    per_target += kernel.functor + kernel.blocks;
    exported += kernel.exported;
    functions += kernel.function + "\n";
  }
  if (!stem.home.plain)
    text += fmt::format("\nnamespace {0} {{\nnamespace pointwise = ::deckle::kernels::cpu::pointwise;\n}}\n", space);
  text += fmt::format("\nHWY_BEFORE_NAMESPACE();\nnamespace {0}::HWY_NAMESPACE {{\n\n{1}{2}}}  // namespace {0}::HWY_NAMESPACE\n",
                      space, used_per_target(stem.home, program.functions, per_target), per_target);
  return text + fmt::format(
                    "HWY_AFTER_NAMESPACE();\n\n#if HWY_ONCE\nnamespace {0} {{\n\n{1}\nnamespace generated {{\n\n{2}}}  "
                    "// namespace generated\n}}  // namespace {0}\n#endif\n",
                    space, exported, with_deckle_names(stem.home, functions));
}

/// The same expressions for GPUs.
std::string cuda_kernel_file(const Stem& stem, const std::vector<PointwiseKernel>& kernels) {
  std::string text = file_head(stem);
  if (kernels.empty()) return text;
  text += fmt::format(
      "#include \"{}\"\n\n#include \"deckle/kernels/cuda/pointwise/functions.cuh\"\n#include "
      "\"deckle/kernels/cuda/pointwise/kernels.cuh\"\n",
      kernels_header(stem.home, stem.name));
  std::string functors, functions;
  std::map<std::string, std::string> known;  // the functor of each expression
  for (const PointwiseKernel& kernel : kernels) {
    const auto [of, is_new] = known.try_emplace(kernel.expression, kernel.functor_name);
    if (is_new) functors += kernel.cuda_functor + "\n";
    functions += cuda_function(kernel, of->second) + "\n";
  }
  return text + fmt::format(
                    "\nnamespace {0}::kernels::cuda {{\nnamespace {{\n\n{1}}}  // namespace\n\nnamespace generated {{\n\n{2}}}  "
                    "// namespace generated\n}}  // namespace {0}::kernels::cuda\n",
                    stem.home.space, functors, functions);
}

void emit_stem(const Stem& stem, const Program& program, bool cuda, Files& files) {
  const auto add = [&](const std::string& path, const std::string& text) { files.add(path, text, stem.source); };
  add(ops_header(stem.home, stem.name), public_header(stem));
  if (const std::string types = types_header(stem); !types.empty()) add(types_header_path(stem.home, stem.name), types);
  const std::string kernels = kernel_header(stem, cuda);
  if (!kernels.empty()) add(kernels_header(stem.home, stem.name), kernels);
  std::vector<std::vector<EmittedOp>> sources(static_cast<size_t>(stem.shards));
  std::vector<std::vector<PointwiseKernel>> kernel_files(static_cast<size_t>(stem.shards)), cuda_files = kernel_files;
  for (const Op* op : stem.ops) {
    const size_t shard = static_cast<size_t>(shard_of(op->unique_name(), stem.shards));
    if (op->body == Op::Body::pointwise) {
      const PointwiseKernel kernel = emit_pointwise_kernel(*op, program.functions);
      kernel_files[shard].push_back(kernel);
      cuda_files[static_cast<size_t>(shard_of(kernel.expression, stem.shards))].push_back(kernel);
    }
    sources[shard].push_back(emit_op(*op, cuda));
  }
  for (size_t shard = 0; shard < sources.size(); ++shard) {
    add(ops_file(stem.home, fmt::format("{}_{}.cpp", stem.name, shard)), source_file(stem, sources[shard], program));
    const std::string path = ops_file(stem.home, fmt::format("{}_kernels_{}.cpp", stem.name, shard));
    add(path, kernel_file(stem, path, kernel_files[shard], program));
    if (cuda)
      add(ops_file(stem.home, fmt::format("{}_kernels_{}.cu", stem.name, shard)), cuda_kernel_file(stem, cuda_files[shard]));
  }
}

}  // namespace

void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>&) {
  emit_methods(program, files);
  for (const Stem& stem : stems_of(program, options)) emit_stem(stem, program, options.cuda, files);
}

}  // namespace opgen::cpp
