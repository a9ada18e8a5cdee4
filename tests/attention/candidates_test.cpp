#include "deckle/attention/candidates.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "deckle/attention/attention.h"
#include "deckle/attention/compile_mask.h"
#include "deckle/attention/cuda_candidates.h"
#include "deckle/attention/plan.h"
#include "deckle/core/factory_device.h"
#include "deckle/kernels/args/attention_served.h"
#include "deckle/ops/generated/attention.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::random_tensor;

std::string text_of(const std::string& file) {
  std::ifstream in(std::string(DECKLE_SOURCE) + "/" + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// DECKLE_FORCE for as long as it lives.
struct Forced {
  explicit Forced(const char* value) { setenv("DECKLE_FORCE", value, 1); }
  ~Forced() { unsetenv("DECKLE_FORCE"); }
};

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in\n" << text;
}

TEST(AttentionCandidates, ThePageShowsTheTableThatTheyGive) {
  const std::string page = text_of("docs/attention.md"), table = attention_feature_table();
  EXPECT_NE(page.find("\n" + table), std::string::npos) << "docs/attention.md should hold\n" << table;
}

/// A row of the table is of one dtype: what a kernel serves of one it need not serve of another.
TEST(AttentionCandidates, TheTableHasARowForEachDtype) {
  const std::string table = attention_feature_table();
  for (const char* dtype : {"bfloat16", "float16", "float32", "float64"})
    EXPECT_NE(table.find(std::string("\n| ") + dtype), std::string::npos) << dtype;
  expect_contains(table, "\n| float16 | F | F B T S M | F B T S M | F | F B | F B | F B T S M |\n");
}

TEST(AttentionCandidates, HopperHeadDimsAreThoseOfTheInstances) {
  std::set<std::pair<int64_t, int64_t>> listed, served(hopper_head_dims().begin(), hopper_head_dims().end());
  std::istringstream lines(text_of("ops/instances.yaml"));
  for (std::string line; std::getline(lines, line);) {
    const auto number = [&](const std::string& key) { return std::stoll(line.substr(line.find(key + ":") + key.size() + 1)); };
    if (line.find("family: cuda/attention, kernel: backward,") != std::string::npos)
      listed.emplace(number("head_dim"), number("value_dim"));
  }
  EXPECT_FALSE(listed.empty());
  EXPECT_EQ(listed, served);
}

TEST(AttentionCandidates, ThePlanChoosesAndTellsWhyNotTheOthers) {
  const OnDevice host{Device()};  // whose kernels it names
  const Tensor x = random_tensor({1, 20, 4, 8}), row = random_tensor({1, 1, 4, 8});
  const std::string many = explain_attention(x, x, x, {.mask = masks::causal(), .slopes = random_tensor({4}), .dropout = 0.5});
  expect_contains(many,
                  "attention of float64, 4 heads on 4, D 8, Dv 8, 1 sequences of 20 rows on 20 keys, causal, bottom-right, "
                  "slopes, dropout 128/256, on cpu");
  expect_contains(many, "  forward: fused\n    not decode: sequence 0: not 1 to 8 rows per key head");
  expect_contains(many, "not reference: runs only where DECKLE_FORCE=attention:reference asks for it");
  expect_contains(many, "not cuda hopper: q is on cpu");
  const std::string one = explain_attention(row, x, x, {.mask = masks::causal()});
  expect_contains(one, "  forward: decode\n    not fused: comes later");
  expect_contains(explain_attention(row, x, x, {.key_lengths = {7}}),
                  "1 sequences of 1 rows on 7 keys, spare rows behind the keys, on cpu\n  forward: decode");
  expect_contains(one, "  backward: fused\n    not decode: a derivative is asked for");
  expect_contains(explain_attention(row, x, x, {.soft_cap = 2}), "not decode: sequence 0: a bias, slopes, table, soft cap");
}

TEST(AttentionPlan, LayersOfAModelCompileTheirMaskOnce) {
  const std::vector<Tensor> rows = {random_tensor({9, 2, 4}), random_tensor({5, 2, 4})};
  const NestedTensor x = NestedTensor::from_list(rows);
  const AttentionMask mask = masks::causal() && masks::prefix(4);
  Tensor bias = random_tensor({2, 2, 9, 9});
  const NestedTensor expected = attention(x, x, x, {.mask = mask, .bias = bias, .soft_cap = 2});
  const int64_t before = compiled_masks();
  const Plan plan = attention_plan(x, x, x, {.mask = mask});
  NestedTensor y = x;
  for (int layer = 0; layer < 12; ++layer) y = attention(y, y, y, {.plan = plan});
  testing::expect_equal(attention(x, x, x, {.bias = bias, .soft_cap = 2, .plan = plan}).values(), expected.values());
  EXPECT_EQ(compiled_masks() - before, 1);
}

TEST(AttentionPlan, KeepsKeyLengthsAndDrawsDropoutAnew) {
  const Tensor q = random_tensor({2, 3, 2, 4}), k = random_tensor({2, 6, 2, 4});
  const Plan plan = attention_plan(q, k, k, {.mask = masks::causal(), .key_lengths = {4, 6}});
  testing::expect_equal(attention(q, k, k, {.plan = plan}), attention(q, k, k, {.mask = masks::causal(), .key_lengths = {4, 6}}));
  Generator generator(1);
  const auto dropped = [&] { return attention(q, k, k, {.dropout = 0.5, .generator = &generator, .plan = plan}).to_vector(); };
  const auto first = dropped();
  EXPECT_NE(first, dropped());
}

TEST(AttentionPlan, OfAnotherBatchIsRefused) {
  const Tensor x = random_tensor({2, 5, 2, 4}), longer = random_tensor({2, 6, 2, 4}), heads = random_tensor({2, 5, 4, 4});
  const Plan plan = attention_plan(x, x, x, {.mask = masks::causal()});
  expect_error([&] { attention(longer, longer, longer, {.plan = plan}); }, "(expected the plan of this batch)");
  expect_error([&] { attention(heads, heads, heads, {.plan = plan}); }, "plan is of 2 heads");
  expect_error([&] { attention(x, x, x, {.key_lengths = {5, 5}, .plan = plan}); }, "key_lengths are given beside plan");
  expect_error([&] { attention(x, x, x, {.mask = masks::causal(), .plan = plan}); }, "a mask is given beside plan");
}

/// A batch of which some sequences are decoded and some are not.
TEST(AttentionPlan, PartitionsTheSequencesOnce) {
  const OnDevice host{Device()};  // whose kernels it names
  const std::vector<Tensor> queries = {random_tensor({1, 2, 8}), random_tensor({30, 2, 8}), random_tensor({2, 2, 8})},
                            keys = {random_tensor({40, 2, 8}), random_tensor({30, 2, 8}), random_tensor({7, 2, 8})};
  const NestedTensor q = NestedTensor::from_list(queries), k = NestedTensor::from_list(keys);
  const Plan plan = attention_plan(q, k, k, {.mask = masks::causal()});
  ASSERT_NE(plan->problem.decoded, nullptr);
  EXPECT_EQ(std::vector<int>(plan->problem.decoded, plan->problem.decoded + 3), (std::vector<int>{1, 0, 1}));
  const NestedTensor both = attention(q, k, k, {.plan = plan});
  const Forced force("attention:fused");
  EXPECT_EQ(attention_plan(q, k, k, {.mask = masks::causal()})->problem.decoded, nullptr);
  expect_close(attention(q, k, k, {.mask = masks::causal()}).values(), both.values(), 1e-12, 1e-10);
}

TEST(AttentionPlan, IsTheChoiceOfCallsThatHaveItsFeatures) {
  const OnDevice host{Device()};  // whose kernels it names
  const NestedTensor q = NestedTensor::from_list({random_tensor({1, 2, 8}), random_tensor({30, 2, 8})}),
                     k = NestedTensor::from_list({random_tensor({40, 2, 8}), random_tensor({30, 2, 8})});
  const Plan plan = attention_plan(q, k, k, {.mask = masks::causal()});
  ASSERT_NE(plan->problem.decoded, nullptr);
  const auto of = [&](AttentionOptions options) {
    options.plan = plan;
    return attention_plan(q, k, k, options);
  };
  EXPECT_EQ(of({})->problem.decoded, plan->problem.decoded) << "of the kept plan, not made again";
  EXPECT_EQ(attention_plan(q, k, k, {.plan = of({})})->problem.decoded, plan->problem.decoded);
  EXPECT_EQ(of({.soft_cap = 2})->problem.decoded, nullptr) << "decoding knows no soft cap";
  const Forced force("attention:reference");
  EXPECT_EQ(of({})->problem.decoded, nullptr);
  EXPECT_EQ(of({})->kernels[0], AttentionKernel::reference);
}

TEST(AttentionCandidates, ExplainingDrawsNoNumbers) {
  const Tensor x = random_tensor({1, 4, 1, 4});
  Generator used(3), fresh(3);
  explain_attention(x, x, x, {.dropout = 0.5, .generator = &used});
  testing::expect_equal(attention(x, x, x, {.dropout = 0.5, .generator = &used}),
                        attention(x, x, x, {.dropout = 0.5, .generator = &fresh}));
}

/// Below the entry points, where no pass reads what a kernel has made of an earlier one.
TEST(AttentionCandidates, TheReferenceRunsWhereItIsAskedFor) {
  const OnDevice host{Device()};  // whose kernels it names
  const auto inputs = [] {
    const auto rows = [] { return random_tensor({18, 2, 4}); };
    return AttentionInputs{.q = rows(), .k = rows(), .v = rows(), .bias = random_tensor({1, 2, 9, 9})};
  };
  const auto outputs = [] { return AttentionOutputs{random_tensor({18, 2, 4}), random_tensor({18, 2})}; };
  const AttentionInputs x = inputs(), t = inputs(), u = inputs(), tu = inputs();
  const AttentionOutputs dy = outputs(), tdy = outputs();
  const auto plan = [&] {
    const Tensor q = view(x.q, {2, 9, 2, 4});
    return attention_plan(q, q, q, {.mask = masks::causal(), .bias = x.bias, .soft_cap = 3});
  };
  const Plan fused = plan();
  const AttentionOutputs y = attention_forward(x, fused);
  const auto passes = [&](const Plan& plan) {
    const auto of_x = [](const AttentionInputs& g) { return std::vector<Tensor>{g.q, g.k, g.v, g.bias}; };
    const auto of_y = [](const AttentionOutputs& g) { return std::vector<Tensor>{g.out, g.lse}; };
    const std::vector<bool> all(7, true);
    const auto [gradient, tangent] = attention_second(t, x, y, dy, tdy, plan, all, {true, true});
    return std::vector<std::vector<Tensor>>{of_y(attention_forward(x, plan)),
                                            of_x(attention_backward(dy, x, y, plan, all)),
                                            of_y(attention_jvp(t, x, plan)),
                                            of_x(gradient),
                                            of_y(tangent),
                                            of_y(attention_mixed(t, u, tu, x, plan))};
  };
  const auto served = [](AttentionKernel kernel) {
    std::vector<int64_t> by_pass;
    for (const auto& counts : kernels::attention_served) by_pass.push_back(counts[static_cast<size_t>(kernel)]);
    return by_pass;
  };
  const auto once_more = [](std::vector<int64_t> by_pass) {
    for (int64_t& count : by_pass) ++count;
    return by_pass;
  };
  const std::vector<int64_t> by_fused = served(AttentionKernel::fused), by_reference = served(AttentionKernel::reference);
  const std::vector<std::vector<Tensor>> expected = passes(fused);
  EXPECT_EQ(served(AttentionKernel::fused), once_more(by_fused));
  EXPECT_EQ(served(AttentionKernel::reference), by_reference);
  const Forced force("attention:reference");
  const Tensor q = view(x.q, {2, 9, 2, 4});
  expect_contains(explain_attention(q, q, q),
                  "  second order: reference\n    not decode: DECKLE_FORCE asks for reference\n    not fused: DECKLE_FORCE asks "
                  "for reference");
  const std::vector<std::vector<Tensor>> reference = passes(plan());
  EXPECT_EQ(served(AttentionKernel::fused), once_more(by_fused));
  EXPECT_EQ(served(AttentionKernel::reference), once_more(by_reference));
  for (size_t pass = 0; pass < expected.size(); ++pass) {
    for (size_t i = 0; i < expected[pass].size(); ++i) expect_close(reference[pass][i], expected[pass][i], 1e-12, 1e-10);
  }
}

TEST(AttentionCandidates, WhereNoneServesTheErrorSaysAll) {
  const OnDevice host{Device()};  // whose kernels it names
  const Tensor x = random_tensor({1, 20, 4, 8}), none = random_tensor({1, 20, 4, 0});
  expect_error([&] { attention(none, none, x); }, "no kernel on cpu serves attention of float64, 4 heads on 4, D 0, Dv 8");
  expect_error([&] { attention(none, none, x); }, "fused: head dims are 0 and 8 (serves 1 and more)");
  const Forced force("attention:hopper");
  expect_error([&] { attention(x, x, x); }, "fused: DECKLE_FORCE asks for hopper");
}

TEST(AttentionCandidates, TheGpuRefusesWhatItsArgumentsCannotHold) {
  AttentionRequest request;
  AttentionProblem& p = request.problem;
  p.dtype = DType::bfloat16;
  p.heads = p.kv_heads = 1;
  p.head_dim = p.value_dim = 80;
  const auto why_not = [&](AttentionKernel kernel) {
    for (const AttentionCandidate& candidate : cuda_attention_candidates()) {
      if (candidate.kernel == kernel) return candidate.why_not(request);
    }
    return std::string("no such candidate");
  };
  EXPECT_EQ(why_not(AttentionKernel::hopper), "");
  p.value_dim = 48;
  EXPECT_EQ(why_not(AttentionKernel::hopper),
            "head dims are 80/48 (serves multiples of 8 up to 64/64, 128/128, 192/128, 192/192, 256/256 with as many panels "
            "of 64 columns)");
  EXPECT_EQ(why_not(AttentionKernel::portable), "");
  const int64_t length = 1;
  p.k_lengths = &length;
  request.sinks = true;
  EXPECT_EQ(why_not(AttentionKernel::portable), "");
  p.value_dim = 80;
  request.slopes = true;
  p.soft_cap = 30;
  p.dropout.threshold = 26;
  EXPECT_EQ(why_not(AttentionKernel::portable), "");
  EXPECT_EQ(why_not(AttentionKernel::hopper), "");
  request.pass = AttentionPass::backward;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "");
  request.table = true;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "a bias or a table is given (serves neither)");
  request.table = false;
  request.bias = true;
  p.dropout.threshold = 0;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "there is a bias beside a soft cap or slopes (serves it with neither)");
  request.slopes = false;
  request.bias = false;
  for (const double cap : {1.0 / 64, 1.0 / 65}) {
    p.soft_cap = cap;
    EXPECT_EQ(why_not(AttentionKernel::hopper),
              cap == 1.0 / 64 ? "" : "soft cap is 0.015384615384615385 (serves 0, none, and from 0.015625 on)");
    EXPECT_EQ(why_not(AttentionKernel::portable), "");
  }
  request.pass = AttentionPass::forward;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "");
  request.pass = AttentionPass::backward;
  request.bias = true;
  p.soft_cap = 0;
  p.dropout.threshold = 26;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "there are both a bias and dropout (serves one of them)");
  p.dropout.threshold = 0;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "") << "of a ragged batch";
  p.k_lengths = nullptr;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "");
  request.bias_in_pieces = false;
  const int64_t bias_offset = 0;
  p.bias_offsets = &bias_offset;
  for (const AttentionPass pass : {AttentionPass::forward, AttentionPass::backward}) {
    request.pass = pass;
    EXPECT_EQ(why_not(AttentionKernel::hopper), "") << "a bias that lies sequence by sequence";
  }
  request.bias_in_pieces = true;
  p.bias_offsets = nullptr;
  request.bias_of_rows = false;
  EXPECT_EQ(why_not(AttentionKernel::hopper), "the bias is broadcast over rows (serves one of each row)");
  request.bias_in_pieces = false;
  for (const AttentionPass pass : {AttentionPass::forward, AttentionPass::backward}) {
    request.pass = pass;
    EXPECT_EQ(why_not(AttentionKernel::hopper),
              "the bias is broadcast over keys, or has rows that are no multiples of 16 bytes (serves neither)");
  }
  request.bias_in_pieces = request.bias_of_rows = true;
  request.bias = false;
  p.dropout.threshold = 26;
  request.pass = AttentionPass::forward;
  p.head_dim = p.value_dim = 192;
  EXPECT_EQ(why_not(AttentionKernel::hopper),
            "dropout is on (serves 0), and head dims are 192/192 (serves it at multiples of 8 up to 64/64, 128/128 with as many "
            "panels)");
  p.dropout.first_row = 8;
  for (const AttentionKernel kernel : {AttentionKernel::portable, AttentionKernel::hopper})
    EXPECT_EQ(why_not(kernel), "dropout begins at row 8 and column 0 (serves multiples of 16)");
  p.dropout.threshold = 0;
  request.bias = true;
  EXPECT_EQ(why_not(AttentionKernel::portable), "");
  EXPECT_EQ(why_not(AttentionKernel::decode), "a bias or a table is given (serves neither)");
  request.bias = false;
  EXPECT_EQ(why_not(AttentionKernel::decode), "");
  p.heads = 33;
  const int64_t row[] = {0, 1}, few[] = {0, 63}, many[] = {0, 64};
  p.sequences = 1;
  p.q_offsets = row;
  p.k_offsets = few;
  EXPECT_EQ(why_not(AttentionKernel::decode), "63 keys in 1 sequences (serves 64 or more a sequence)");
  p.k_offsets = many;
  EXPECT_EQ(why_not(AttentionKernel::decode),
            "sequence 0 has 1 query rows of 33 heads on a key head (serves a product up to 32)");
  request.pass = AttentionPass::backward;
  EXPECT_EQ(why_not(AttentionKernel::decode), "a derivative is asked for (serves the forward)");
  request.pass = AttentionPass::jvp;
  EXPECT_EQ(why_not(AttentionKernel::portable),
            "forward mode or second order is asked for (serves the forward and the backward)");
}

TEST(AttentionCandidates, ABiasExpandedOverRowsIsNoneOfEachRow) {
  const Tensor x = random_tensor({2, 40, 4, 8});
  const auto of_rows = [&](const Tensor& bias) {
    const AttentionOptions options{.bias = bias};
    const Tensor packed = view(x, {80, 4, 8});
    const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{40, 40});
    return attention_request(*make_attention_plan(packed, packed, packed, rows, rows, options), options, Device()).bias_of_rows;
  };
  EXPECT_TRUE(of_rows(random_tensor({2, 4, 40, 40})));
  EXPECT_TRUE(of_rows(expand(random_tensor({1, 1, 40, 40}), {2, 4, 40, 40})));
  EXPECT_FALSE(of_rows(random_tensor({1, 4, 1, 40})));
  EXPECT_FALSE(of_rows(expand(random_tensor({1, 4, 1, 40}), {2, 4, 40, 40})));
  EXPECT_TRUE(of_rows(slice(expand(random_tensor({1, 4, 1, 80}), {2, 4, 40, 80}), 3, 0, 80, 2))) << "it is copied";
}

/// What a launch would refuse, the plan has not chosen: heads, rows, lists and what a device has not.
TEST(AttentionCandidates, TheGpuRefusesWhatItsLaunchesWould) {
  AttentionRequest request;
  AttentionProblem& p = request.problem;
  p.dtype = DType::bfloat16;
  p.heads = p.kv_heads = 4;
  p.head_dim = p.value_dim = 128;
  int64_t rows[66] = {}, keys[66] = {};
  p.sequences = 1;
  p.q_offsets = rows, p.k_offsets = keys;
  rows[1] = 2, keys[1] = 1000;
  const auto why_not = [&](AttentionKernel kernel) {
    for (const AttentionCandidate& candidate : cuda_attention_candidates()) {
      if (candidate.kernel == kernel) return candidate.why_not(request);
    }
    return std::string("no such candidate");
  };
  const auto device = [&](int major, int minor, int bytes) {
    request.capability_major = major, request.capability_minor = minor, request.block_bytes = bytes;
  };
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    p.dtype = dtype;
    for (const auto& [major, text] : {std::pair(8, "8.0"), {10, "10.0"}, {12, "12.0"}}) {
      device(major, 0, 163840);
      EXPECT_EQ(why_not(AttentionKernel::hopper), std::string("the device has compute capability ") + text + " (serves 9.x)");
    }
  }
  p.dtype = DType::bfloat16;
  device(7, 5, 65536);
  for (const AttentionKernel kernel : {AttentionKernel::decode, AttentionKernel::portable})
    EXPECT_EQ(why_not(kernel), "the device has compute capability 7.5 (serves 8.0 and newer)");
  EXPECT_EQ(why_not(AttentionKernel::general), "");
  device(8, 6, 101376);
  EXPECT_EQ(why_not(AttentionKernel::portable), "");
  EXPECT_EQ(why_not(AttentionKernel::decode), "a block takes 102400 bytes of shared memory (the device has 101376)");
  p.head_dim = p.value_dim = 64;
  EXPECT_EQ(why_not(AttentionKernel::decode), "");
  device(9, 0, 232448);
  p.head_dim = p.value_dim = 128;
  for (const AttentionKernel kernel : {AttentionKernel::decode, AttentionKernel::hopper, AttentionKernel::portable})
    EXPECT_EQ(why_not(kernel), "");
  p.heads = p.kv_heads = 65536;
  for (const AttentionKernel kernel : {AttentionKernel::decode, AttentionKernel::hopper, AttentionKernel::portable})
    EXPECT_EQ(why_not(kernel), "65536 heads (serves up to 65535)");
  EXPECT_EQ(why_not(AttentionKernel::general), "");
  p.heads = p.kv_heads = 40000;
  rows[1] = 17;
  EXPECT_EQ(why_not(AttentionKernel::decode), "sequence 0 has 80000 tiles of rows (serves up to 65535)");
  p.heads = p.kv_heads = 1;
  // 65 sequences, each short enough.
  p.sequences = 65;
  for (int b = 0; b < 65; ++b) rows[b + 1] = rows[b] + (int64_t{1} << 24) - b, keys[b + 1] = keys[b] + 1;
  for (const AttentionKernel kernel : {AttentionKernel::hopper, AttentionKernel::portable})
    EXPECT_EQ(why_not(kernel), "1090516960 rows and 65 keys in all (serves fewer than 2^30)");
  EXPECT_EQ(why_not(AttentionKernel::general), "");
  // The lists of a mask, whose limit the launches have in the same words (attention_host_test).
  const int32_t bounds[2] = {};
  p.sequences = 1;
  p.ranges = {bounds, 1};
  rows[1] = keys[1] = 1 << 18;
  for (const AttentionPass pass : {AttentionPass::forward, AttentionPass::backward}) {
    request.pass = pass;
    rows[1] = keys[1] = 1 << 18;
    EXPECT_EQ(why_not(AttentionKernel::hopper), "");
    rows[1] = keys[1] = 1 << 20;
    EXPECT_EQ(why_not(AttentionKernel::hopper), std::string("lists of the tiles that the mask leaves would take ") +
                                                    (pass == AttentionPass::forward ? "682" : "1024") +
                                                    " MiB (serves up to 256)");
    EXPECT_EQ(why_not(AttentionKernel::portable), "");
  }
}

/// float32 and derivatives beyond the first backward, whose operands come in pairs.
TEST(AttentionCandidates, HopperSaysWhichPairsItServes) {
  AttentionRequest request;
  AttentionProblem& p = request.problem;
  const int64_t rows[] = {0, 200}, keys[] = {0, 100}, length = 90;
  p.sequences = 1;
  p.q_offsets = p.k_offsets = rows;
  p.heads = p.kv_heads = 2;
  p.head_dim = 7, p.value_dim = 33;
  const auto why_not = [&](DType dtype, AttentionPass pass) {
    p.dtype = dtype;
    request.pass = pass;
    for (const AttentionCandidate& candidate : cuda_attention_candidates()) {
      if (candidate.kernel == AttentionKernel::hopper) return candidate.why_not(request);
    }
    return std::string("no such candidate");
  };
  EXPECT_EQ(why_not(DType::float32, AttentionPass::forward), "");
  EXPECT_EQ(why_not(DType::float32, AttentionPass::backward), "");
  EXPECT_EQ(why_not(DType::float32, AttentionPass::jvp), "dtype is float32 (serves forward mode and second order of bfloat16)");
  EXPECT_EQ(why_not(DType::float16, AttentionPass::second),
            "dtype is float16 (serves forward mode and second order of bfloat16)");
  EXPECT_EQ(why_not(DType::float64, AttentionPass::forward), "dtype is float64 (serves bfloat16, float16, float32)");
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::mixed), "forward over forward is asked for (serves every other pass)");
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::jvp),
            "head dims are 7/33 (serves multiples of 8 up to 64/64, 128/128 with as many panels)");
  p.head_dim = 129;
  EXPECT_EQ(why_not(DType::float32, AttentionPass::forward), "head dims are 129/33 (serves 1 to 128)");
  p.head_dim = p.value_dim = 120;
  for (const AttentionPass pass : {AttentionPass::jvp, AttentionPass::second}) EXPECT_EQ(why_not(DType::bfloat16, pass), "");
  request.sinks = true;
  EXPECT_EQ(why_not(DType::float32, AttentionPass::forward), "");
  EXPECT_EQ(why_not(DType::float32, AttentionPass::backward), "sinks are given (serves none)");
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::jvp), "sinks are given (serves none)");
  request.sinks = false;
  p.k_lengths = &length;
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::jvp), "");
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::second), "there are spare rows behind the keys (serves none)");
  p.k_lengths = nullptr;
  p.k_offsets = keys;
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::jvp), "");
  EXPECT_EQ(why_not(DType::bfloat16, AttentionPass::second), "a sequence has more rows than keys (serves as many keys, or none)");
  p.soft_cap = 30;
  EXPECT_EQ(why_not(DType::float32, AttentionPass::forward), "soft cap is 30 (serves 0, none)");
  p.soft_cap = 5000;
  for (const AttentionPass pass : {AttentionPass::forward, AttentionPass::backward})
    EXPECT_EQ(why_not(DType::bfloat16, pass), "soft cap is 5000 (serves 0, none, and up to 4096)");
}

/// Below the entry point: one bool says of each operand whether its gradient is wanted, and what was not given has none.
TEST(AttentionPlan, WantsGradientsOfWhatWasGiven) {
  const Tensor x = random_tensor({1, 4, 2, 8}), packed = view(x, {4, 2, 8});
  const Plan plan = attention_plan(x, x, x);
  const AttentionInputs inputs{packed, packed, packed};
  const AttentionOutputs y = attention_forward(inputs, plan);
  expect_error([&] { attention_backward(y, inputs, y, plan, {true}); }, "wanted has 1 elements (expected 7)");
  const AttentionInputs gradient = attention_backward(y, inputs, y, plan, std::vector<bool>(7, true));
  EXPECT_EQ(gradient.q.numel(), packed.numel());
  EXPECT_EQ(gradient.bias.numel(), 0);
}

}  // namespace
}  // namespace deckle
