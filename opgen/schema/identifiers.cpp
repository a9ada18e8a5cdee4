#include "opgen/schema/identifiers.h"

#include <fmt/format.h>

#include <algorithm>

namespace opgen {
namespace {

constexpr std::string_view kKeywords =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await "
    "co_return co_yield compl concept const consteval constexpr constinit const_cast continue decltype default delete do "
    "double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace "
    "new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return "
    "short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef "
    "typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq";

/// Macros of the C and C++ headers, and of the compilers, that generated code would replace.
constexpr std::string_view kMacros =
    "assert errno i386 linux offsetof setjmp stderr stdin stdout unix va_arg va_copy va_end va_start BUFSIZ DOMAIN EDOM "
    "EILSEQ EOF ERANGE HUGE INFINITY NAN NULL OVERFLOW PLOSS SING TLOSS UNDERFLOW";

/// Namespaces of the library, where a function of the same name cannot be.
constexpr std::string_view kNamespaces =
    "autograd composite detail dispatch functional io kernels launch masks native nested nn optim raw shapes suite";

/// What generated code calls or declares with in the namespace of the ops: an op of the same name would hide it.
constexpr std::string_view kUsedByOps = "fail int64_t rethrow_from";

/// Classes of the library's headers, and functions of Highway, which generated kernels call unqualified.
constexpr std::string_view kClasses =
    "Add Alignment And Argument ArrowList AttentionAlignment AttentionCandidate AttentionDropout AttentionKernel "
    "AttentionMask AttentionOperands AttentionOptions AttentionPass AttentionPlan AttentionPlane AttentionProblem "
    "AttentionRanges AttentionRequest AttentionResults AttentionRows BoolArg BracedInt ByName Context DType Device DeviceKind "
    "Dims Div Ellipsis EnableGrad Eq Error ErrorKind FloatArg Generator GradMode GradcheckOptions GradientSink Gradients Gt "
    "IfThenElse Index Inf IntArg IntSpan Integer IntegersInRow Ints JaggedLayout Letter Lt MatmulOptions MemoryStats Mul NaN "
    "Neg NestedTensor NewAxis NoGrad NoInteger Not Number OpInfo Operand OperandSizes OptionalIntArg OptionalInts Or "
    "PadOptions PadSide Philox PhiloxStream Plan Pooling Ragged RaggedShape RaggedView RepeatedRows RowIterator RowMap "
    "RowOperand SavedRows SavedTensor SavedTensorHooks Scalar Set Slice SmallVector Storage StridedLayout Sub TemporaryTensor "
    "Tensor TensorImpl TensorList TypeTag VarlenLayout View Xor Zero";

constexpr size_t kLongestName = 200;  // of 255 letters that a file's name may have

/// Whether it is one of these words, which have a blank between them.
bool holds(std::string_view words, std::string_view name) {
  for (size_t at = words.find(name); at != std::string_view::npos; at = words.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return !name.empty();
  }
  return false;
}

}  // namespace

const std::set<std::string>& node_members() {
  static const std::set<std::string> kMembers = {"name",           "backward", "release",       "connect",     "add_edge",
                                                 "add_output",     "edges",    "outputs",       "sequence",    "add_hook",
                                                 "run_hooks",      "retain",   "keep_retained", "wants_zeros", "shared_from_this",
                                                 "weak_from_this", "grads",    "sink",          "grad"};
  return kMembers;
}

std::string why_too_long(std::string_view name) {
  return name.size() <= kLongestName ? ""
                                     : fmt::format("a name of {} letters is too long: {} are allowed", name.size(), kLongestName);
}

std::string why_not_a_name(std::string_view name) {
  if (const std::string why = why_too_long(name); !why.empty()) return why;
  if (is_macro(name)) return fmt::format("'{}' is a macro of C: choose another name", name);
  if (name.empty() || name[0] < 'a' || name[0] > 'z')
    return fmt::format("'{}' is no name here: names begin with a small letter", name);
  if (holds(kKeywords, name)) return fmt::format("'{}' is a word of C++: choose another name", name);
  return "";
}

std::string why_not_an_op(std::string_view name) {
  if (holds(kUsedByOps, name)) return fmt::format("'{}' is what the generated code uses: choose another name", name);
  return holds(kNamespaces, name) ? fmt::format("'{}' is a namespace of the library: choose another name", name)
                                  : why_not_a_name(name);
}

std::string why_not_a_type(std::string_view name) {
  if (const std::string why = why_too_long(name); !why.empty()) return why;
  const auto letter_or_digit = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name[0] < 'A' || name[0] > 'Z' || !std::all_of(name.begin(), name.end(), letter_or_digit))
    return fmt::format("'{}' is no name of a type: those are a capital letter, then letters and digits", name);
  if (is_macro(name)) return fmt::format("'{}' is a macro of C: choose another name", name);
  return is_class_of_library(name) ? fmt::format("'{}' is a class of the library: choose another name", name) : "";
}

bool is_macro(std::string_view name) { return holds(kMacros, name); }

bool is_class_of_library(std::string_view name) { return holds(kClasses, name); }

}  // namespace opgen
