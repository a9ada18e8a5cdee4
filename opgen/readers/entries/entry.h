#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "opgen/model/entry.h"
#include "opgen/text/yaml_file.h"

namespace opgen {

/// `samples: set` or a list of calls; a set is such a list too.
void check_samples_list(const YamlFile& file, const Tree& node);

/// Reads one op of an entry file; throws Problem.
class EntryReader {
 public:
  EntryReader(const YamlFile& file, const Tree& node, const DeclaredTypes& types) : file_(file), node_(node), types_(types) {}

  std::shared_ptr<Entry> load();

 private:
  Formula formula(const Tree& node, const std::string& field) const;
  ExprPtr expression(const Tree& node, const std::string& field) const;
  /// The tensors that a key stands for: x is all of a record, x.q one of its fields. A name that is unknown stands for itself.
  std::vector<std::string> slots_of(const std::string& name) const;
  /// result1 -> the name of that result, if it has one.
  std::string canonical(const std::string& name) const;

  // What the op is: entry_body.cpp.
  void body();
  /// `composite: {cpp: true, calls: [linear, bmm], because: "one product for each expert"}`.
  void composite_cpp(const Tree& value);
  /// `{cpu: FORMULA, cuda: FORMULA}`, which the device of the op's tensors chooses between.
  void composite_by_device(const Tree& value);
  /// By device, as functions called so if they are given no name.
  std::map<std::string, Kernel> kernels(const Tree& value, const std::string& function) const;
  void result_rules();
  /// The rule of a record is {field: rule}, or like(x) and like(x, wanted) of another of the same type, field by field.
  void result_rule(const Tree& value, const Parameter& outcome);
  void checks();
  void math();
  void wraps();
  void strided();
  void permuted();
  /// The tensors that one name, or a list of names, stands for.
  std::vector<std::string> tensors_named(const Tree& node, const std::string& field) const;
  /// The value of `linear` or `metadata`: what the body does not show.
  Tree said(const std::string& field) const;
  /// The results that a name stands for.
  std::vector<size_t> results_named(const Tree& node) const;
  /// `linear: x`, `linear: [x, y]` together, `linear: [x, [y, z]]` each set by itself; {y: x} of the result y alone.
  void linear();
  void metadata();
  /// `host: REASON`, of native ops and composites in C++.
  void host();
  /// `cpu_only: REASON`, of kernels without CUDA.
  void cpu_only();
  void dtypes();
  /// Refuses a field that only the launch of a kernel reads.
  void require_kernel(const Tree& value, const std::string& field) const;
  /// `autocast: half`, `autocast: float32`, or {half: INPUTS}.
  void autocast();
  void variants();

  // Its derivatives: entry_derivative.cpp.
  /// The rules of one key: one, or one for each case.
  std::vector<WrittenRule> rules(const Tree& key, const Tree& value) const;
  ExprPtr with_canonical_names(const ExprPtr& expr) const;
  Formula with_canonical_names(Formula formula) const;
  WrittenRule rule(const Tree& key, const Tree& value) const;
  /// The key `x[i]`: a formula for each element of a list.
  void each_element(const Tree& key, std::vector<std::string>& names, WrittenRule& rule) const;
  size_t result_index(const std::string& name) const;
  void derivative();
  /// `derivative: {order: 2, of: attention}`.
  void order_limit(const Tree& value);
  /// `recompute: result`, or a list of results.
  void recompute();

  // Nested tensors and tests: entry_nested.cpp.
  void nested();
  /// `segment: OP`, or for a ragged form of the entry `segment: {cpu: family/file}` and `segment: true`.
  void segment(const Tree& value);
  /// `zeros_need: ARGUMENT`, beside `rows: true`.
  void zeros_need(const Tree& value);
  /// `cpp: {batch: TEXT, ragged: TEXT, regular: {error: REASON}}`.
  void dims_by_hand(const Tree& value);
  std::vector<std::string> nested_arguments(const Tree& names);
  void samples();

  const YamlFile& file_;
  const Tree& node_;
  const DeclaredTypes& types_;
  std::shared_ptr<Entry> entry_;
};

}  // namespace opgen
