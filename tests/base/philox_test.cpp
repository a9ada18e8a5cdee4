#include "deckle/base/philox.h"

#include <gtest/gtest.h>

namespace deckle {
namespace {

// Known answers of Random123 (Salmon et al. 2011) for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox<10>::generate({0, 0, 0, 0}, 0, 0), (Philox<10>::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox<10>::generate({ones, ones, ones, ones}, ones, ones),
            (Philox<10>::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox<10>::generate({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Philox<10>::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace deckle
