// Linked into a test program: with DECKLE_TEST_NEEDS_CPU it ends with ctest's code of a skipped test, and says why, where the
// processor has not the instruction set that DECKLE_CPU asks for: capped at a weaker one it would test that one again.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "deckle/base/cpu_cap.h"

namespace deckle::testing {
namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE of tests/CMakeLists.txt

class ForcedIsa : public ::testing::Environment {
  void SetUp() override {
    const char* const asked = std::getenv("DECKLE_CPU");
    if (std::getenv("DECKLE_TEST_NEEDS_CPU") == nullptr || asked == nullptr || name(cpu_isa()) == std::string_view(asked)) return;
    std::printf("skipped: this processor has no %s, only %s\n", asked, name(cpu_isa()));
    std::fflush(stdout);
    std::exit(kSkipped);
  }
};

const ::testing::Environment* const kForcedIsa = ::testing::AddGlobalTestEnvironment(new ForcedIsa);

}  // namespace
}  // namespace deckle::testing
