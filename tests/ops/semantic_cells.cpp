#include "tests/ops/semantic_cells.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "deckle/ops/op_table.h"
#include "tests/ops/suite_support.h"

namespace deckle::suite {
namespace {

struct Exemption {
  std::string_view op;  // its unique name
  Cell cell;
  std::string_view reason;
};

constexpr std::string_view kOneDtype = "refuses operands of two dtypes";
constexpr std::string_view kDivisor =
    "of a divisor of 0 derivatives are sums of infinities, which are NaN in one order and not in another";

constexpr Exemption kExemptions[] = {
    {"detach", Cell::aliasing, "shows its input's elements and is a constant: that is what it is for"},
    {"detach", Cell::constant_inputs, "the same"},
    {"deviations_of_rows", Cell::special_points, kDivisor},
    {"deviations_of_rows", Cell::mixed_dtypes, kOneDtype},
    {"scaled_deviations", Cell::special_points, kDivisor},
    {"scaled_deviations", Cell::mixed_dtypes, kOneDtype},
    {"batched_matmul", Cell::mixed_dtypes, kOneDtype},
    {"bias_gelu", Cell::mixed_dtypes, kOneDtype},
    {"bmm", Cell::mixed_dtypes, kOneDtype},
    {"concatenate", Cell::mixed_dtypes, kOneDtype},
    {"concatenate_rows", Cell::mixed_dtypes, kOneDtype},
    {"foreach_add", Cell::mixed_dtypes, kOneDtype},
    {"foreach_addcdiv", Cell::mixed_dtypes, kOneDtype},
    {"foreach_addcmul", Cell::mixed_dtypes, kOneDtype},
    {"foreach_dot", Cell::mixed_dtypes, kOneDtype},
    {"foreach_dot_over", Cell::mixed_dtypes, kOneDtype},
    {"foreach_mul", Cell::mixed_dtypes, kOneDtype},
    {"grouped_mm", Cell::mixed_dtypes, kOneDtype},
    {"index_add", Cell::mixed_dtypes, kOneDtype},
    {"index_put", Cell::mixed_dtypes, kOneDtype},
    {"bag_products", Cell::mixed_dtypes, kOneDtype},
    {"linear", Cell::mixed_dtypes, kOneDtype},
    {"linear_weight_backward", Cell::mixed_dtypes, kOneDtype},
    {"matmul", Cell::mixed_dtypes, kOneDtype},
    {"mm", Cell::mixed_dtypes, kOneDtype},
    {"mv", Cell::mixed_dtypes, kOneDtype},
    {"rotary", Cell::mixed_dtypes, kOneDtype},
    {"sum_of_products", Cell::mixed_dtypes, kOneDtype},
    {"scatter", Cell::mixed_dtypes, kOneDtype},
    {"scatter_add", Cell::mixed_dtypes, kOneDtype},
    {"conv1d", Cell::mixed_dtypes, kOneDtype},
    {"conv2d", Cell::mixed_dtypes, kOneDtype},
    {"einsum", Cell::mixed_dtypes, kOneDtype},
    {"scatter_reduce", Cell::mixed_dtypes, kOneDtype},
    {"solve", Cell::mixed_dtypes, kOneDtype},
    {"solve_matrices", Cell::mixed_dtypes, kOneDtype},
    {"segment_conv1d", Cell::mixed_dtypes, kOneDtype},
    {"segment_convolution", Cell::mixed_dtypes, kOneDtype},
    {"segment_convolution_transpose", Cell::mixed_dtypes, kOneDtype},
    {"segment_convolution_weight", Cell::mixed_dtypes, kOneDtype},
    {"segment_scatter_add", Cell::mixed_dtypes, kOneDtype},
};

struct Unsampled {
  std::string_view op, reason;
};

/// Ops without samples. Those that the generator derives (their entry is another op's) are run by the orders of that op.
constexpr Unsampled kUnsampled[] = {
    {"attention_forward", "takes a plan, which no sample can write; tests/attention"},
    {"attention_backward", "takes a plan; tests/attention"},
    {"attention_jvp", "takes a plan; tests/attention"},
    {"attention_second", "takes a plan; tests/attention"},
    {"attention_mixed", "takes a plan; tests/attention"},
    {"third_order_of_attention", "only throws: the order is not there"},
    {"third_orders_of_attention", "only throws: the order is not there"},
    {"cross_entropy_rows_backward", "a derivative of cross_entropy_rows, run by its orders"},
    {"cross_entropy_rows_jvp", "a derivative of cross_entropy_rows, run by its orders"},
    {"cross_entropy_rows_curvature", "a derivative of cross_entropy_rows, run by its orders"},
};

/// Ops that each cell is compared on, at least: fewer are a cell that nothing asks any more.
constexpr size_t kLeastOps[] = {
    250,  // identity
    240,  // aliasing
    190,  // modes
    190,  // special_points
    6,    // each_output
    190,  // each_input
    3,    // constant_inputs
    38,   // aliased_inputs
    40,   // mixed_dtypes
    45,   // inplace
    45,   // inplace_view
    8,    // inplace_self
    8,    // inplace_overlap
    55,   // out_refuses
    43,   // linear
    30,   // element_wise
};
static_assert(std::size(kLeastOps) == kCells);

struct Record {
  size_t compared = 0;
  std::string refusal;  // the last one
};

std::map<std::string, std::map<Cell, Record>>& records() {
  static std::map<std::string, std::map<Cell, Record>> all;
  return all;
}

std::set<const Exemption*>& used() {
  static std::set<const Exemption*> all;
  return all;
}

/// "mul.Tensor(Tensor self, ..." -> "mul_Tensor".
std::string unique_name(const OpInfo& op) {
  std::string name(op.schema.substr(0, op.schema.find('(')));
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// Else the samples are those of another library's ops.
bool of_deckle() {
  return std::any_of(op_table().begin(), op_table().end(), [](const OpInfo& op) { return records().count(unique_name(op)) > 0; });
}

/// Ops of the library that no sample ran.
std::string without_cells() {
  std::set<std::string_view> entries;
  std::string missing;
  for (const OpInfo& op : op_table()) {
    if (!op.because.empty()) continue;  // no op
    const std::string name = unique_name(op);
    const bool first = entries.insert(op.position).second;
    const bool named =
        std::any_of(std::begin(kUnsampled), std::end(kUnsampled), [&](const Unsampled& u) { return u.op == name; });
    if (records().count(name) == 0 && first && !named) missing += "  " + name + "\n";
    EXPECT_FALSE(named && records().count(name) > 0) << name << " has samples, and the table says that it has none";
  }
  return missing;
}

/// At the end of a program that ran all its tests: which cells were compared, and that no cell was lost on the way.
class Summary final : public ::testing::Environment {
 public:
  void TearDown() override {
    if (records().empty()) return;
    std::map<Cell, std::pair<size_t, size_t>> totals;  // ops, comparisons
    std::string missing, table = "op,cell,comparisons,refusal\n";
    for (const auto& [op, cells] : records()) {
      for (const auto& [cell, record] : cells) {
        table += fmt::format("{},{},{},\"{}\"\n", op, cell_name(cell), record.compared, record.refusal);
        if (record.compared > 0) {
          totals[cell].first += 1;
          totals[cell].second += record.compared;
        } else {
          missing += fmt::format("  {}: {}: {}\n", op, cell_name(cell), record.refusal);
        }
      }
    }
    std::cout << "semantic cells (ops, samples):";
    for (const auto& [cell, counts] : totals)
      std::cout << fmt::format(" {} {}/{};", cell_name(cell), counts.first, counts.second);
    std::cout << fmt::format(" {} ops; {} exempt cells\n", records().size(), std::size(kExemptions));
    if (const char* const path = std::getenv("DECKLE_SEMANTIC_CELLS")) std::ofstream(path) << table;
    const auto* const tests = ::testing::UnitTest::GetInstance();
    if (tests->test_to_run_count() != tests->total_test_count() || !of_deckle() || on_device()) return;
    EXPECT_EQ(without_cells(), "") << "ops without a sample that are not in the table of those";
    for (size_t cell = 0; cell < kCells; ++cell) {
      EXPECT_GE(totals[static_cast<Cell>(cell)].first, kLeastOps[cell])
          << "the ops on which " << cell_name(static_cast<Cell>(cell)) << " is compared";
    }
    EXPECT_EQ(missing, "") << "refused on every sample, and not in the table of exemptions";
    for (const Exemption& exemption : kExemptions) {
      EXPECT_TRUE(used().count(&exemption) > 0)
          << exemption.op << " is exempt from " << cell_name(exemption.cell) << ", and nothing asked for it";
    }
  }
};

const auto* const summary = ::testing::AddGlobalTestEnvironment(new Summary);

}  // namespace

std::string_view cell_name(Cell cell) {
  constexpr std::string_view names[] = {"identity",        "aliasing",    "modes",           "special_points",
                                        "each_output",     "each_input",  "constant_inputs", "aliased_inputs",
                                        "mixed_dtypes",    "inplace",     "inplace_view",    "inplace_self",
                                        "inplace_overlap", "out_refuses", "linear",          "element_wise"};
  static_assert(std::size(names) == kCells);
  return names[static_cast<size_t>(cell)];
}

void compared(const Case& op, Cell cell) { ++records()[op.name][cell].compared; }

void refused_by_op(const Case& op, Cell cell, const std::string& message) {
  if (!exempt(op, cell)) records()[op.name][cell].refusal = message;
}

bool exempt(const Case& op, Cell cell) {
  for (const Exemption& exemption : kExemptions) {
    if (exemption.op != op.name || exemption.cell != cell) continue;
    used().insert(&exemption);
    return true;
  }
  return false;
}

}  // namespace deckle::suite
