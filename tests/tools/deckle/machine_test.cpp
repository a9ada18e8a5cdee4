#include "tools/deckle/machine.h"

#include <gtest/gtest.h>

#include "deckle/base/cpu_cap.h"

namespace deckle {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Rates at which what is chosen here is `share` of what is fastest.
cli::MachineRates rates_where_the_choice_is(double share) {
  cli::MachineRates rates{100, 100, 100, 10};
  if (bf16_arithmetic() != Bf16Arithmetic::widened) rates.float32 = 100 / share;
  if (bf16_arithmetic() != Bf16Arithmetic::pair_dot) rates.pair_dot = 100 / share;
  if (bf16_arithmetic() != Bf16Arithmetic::tiles) rates.tiles = 100 / share;
  return rates;
}

TEST(Machine, SaysWhereTheTableIsWrong) {
  const std::string right = cli::describe_machine(rates_where_the_choice_is(1.2), false);
  EXPECT_TRUE(contains(right, "the measurement agrees with the table")) << right;
  const std::string wrong = cli::describe_machine(rates_where_the_choice_is(0.5), false);
  EXPECT_TRUE(contains(wrong, "the table is wrong here: ")) << wrong;
  EXPECT_TRUE(contains(wrong, " is 2.0 times as fast")) << wrong;
  EXPECT_TRUE(contains(wrong, cpu_info().vendor)) << wrong;
  EXPECT_TRUE(contains(wrong, std::string("bfloat16 is multiplied in: ") + name(bf16_arithmetic()))) << wrong;
}

TEST(Machine, UnitsThatAreNotThereAreNotCompared) {
  for (const double rate : {100.0, 0.0}) {
    const std::string text = cli::describe_machine({rate, 0, 0, 10}, false);
    EXPECT_TRUE(contains(text, "bfloat16 AMX tiles     not here")) << text;
    EXPECT_TRUE(contains(text, "no other unit here to compare it with")) << text;
    EXPECT_FALSE(contains(text, "table")) << text;
  }
}

TEST(Machine, DoesNotJudgeAForcedChoice) {
  const std::string text = cli::describe_machine(rates_where_the_choice_is(0.5), true);
  EXPECT_TRUE(contains(text, "DECKLE_CPU forces that, not the table")) << text;
  EXPECT_FALSE(contains(text, "wrong") || contains(text, "agrees")) << text;
}

}  // namespace
}  // namespace deckle
