#include "tests/ops/nested_coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "deckle/ops/op_table.h"
#include "tests/support/expect.h"

namespace deckle::suite {
namespace {

std::set<std::pair<std::string, int>>& cells() {
  static std::set<std::pair<std::string, int>> value;
  return value;
}

std::set<std::string>& functions() {
  static std::set<std::string> value;
  return value;
}

std::map<std::pair<std::string, size_t>, std::string>& checks() {  // that no case has broken yet
  static std::map<std::pair<std::string, size_t>, std::string> value;
  return value;
}

std::set<std::pair<std::string, size_t>>& broken() {
  static std::set<std::pair<std::string, size_t>> value;
  return value;
}

std::map<std::string, bool>& converting() {
  static std::map<std::string, bool> value;
  return value;
}

constexpr const char* kKinds[] = {"the batch", "a ragged dim", "a regular dim"};

/// Functions on nested tensors that stand in headers, not in entries.
const char* const kHeaders[] = {"indexing", "interop", "padding", "pooling", "products", "structure"};

/// Else these are the ops of another library.
bool of_deckle() {
  return std::any_of(op_table().begin(), op_table().end(), [](const OpInfo& op) {
    return cells().contains({std::string(op.name), ragged});
  });
}

void check_table() {
  for (const OpInfo& op : op_table()) {
    for (int over : {batch, ragged, regular}) {
      const std::string_view rule = op.over[over];
      const std::string name(op.name);
      if (rule.empty() || name.find("_backward") != std::string::npos || cells().contains({name, over})) continue;
      ADD_FAILURE() << op.position << ": no test compares '" << name << "' over " << kKinds[over] << " (" << rule
                    << "): give its rule samples, or write a case in tests/ops/by_hand_*_test.cpp";
    }
  }
}

void check_headers() {
  const std::regex declaration(R"(^(?:NestedTensor|Tensor) (\w+)\()");
  for (const std::string header : kHeaders) {
    std::ifstream file(std::string(NESTED_HEADERS) + "/" + header + ".h");
    ASSERT_TRUE(file) << header;
    std::smatch found;
    for (std::string line; std::getline(file, line);) {
      if (std::regex_search(line, found, declaration) && !functions().contains(found[1]))
        ADD_FAILURE() << "deckle/nested/" << header << ".h: no test compares '" << found[1]
                      << "': write a case in tests/ops/by_hand_*_test.cpp";
    }
  }
}

void check_refusals() {
  for (const auto& [check, says] : checks()) {
    if (!broken().contains(check))
      ADD_FAILURE() << "no test breaks check " << check.second << " of '" << check.first << "' with nested operands (" << says
                    << "): write a case in tests/ops/by_hand_checks_test.cpp";
  }
  for (const auto& check : broken()) EXPECT_TRUE(checks().contains(check)) << check.first << " has no check " << check.second;
}

class EveryCell : public ::testing::Environment {
  void TearDown() override {
    if (GTEST_FLAG_GET(filter) != "*" || std::getenv("GTEST_TOTAL_SHARDS") != nullptr) return;  // part of the suite
    if (!of_deckle()) return;
    check_table();
    check_headers();
    check_refusals();
    for (const auto& [op, held] : converting())
      EXPECT_TRUE(held) << "no sample of '" << op << "' is a batch that its overload takes in the scope of an Autocast";
  }
};

[[maybe_unused]] const ::testing::Environment* const kEveryCell = ::testing::AddGlobalTestEnvironment(new EveryCell);

}  // namespace

void covered(const std::string& op, Over over) { cells().insert({op, over}); }

ChecksOf::ChecksOf(const std::string& op, const std::vector<std::string>& of) {
  for (size_t i = 0; i < of.size(); ++i) checks()[{op, i}] = of[i];
}

void refuses(const std::string& op, size_t check, const std::string& message, const std::function<void()>& call) {
  SCOPED_TRACE(op);
  testing::expect_error(call, op + ": " + message);
  broken().insert({op, check});
}

void takes(const std::string& op, size_t check, const std::function<void()>& call) {
  SCOPED_TRACE(op);
  EXPECT_NO_THROW(call());
  broken().insert({op, check});
}

void converts(const std::string& op, bool held) { converting()[op] |= held; }

void covered_function(const std::string& name) { functions().insert(name); }

}  // namespace deckle::suite
