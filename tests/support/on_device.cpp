// Linked into a test program: with DECKLE_TEST_FACTORIES=cuda factories make tensors on the first GPU, which may be a fake one,
// unless a test says where.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "deckle/core/factory_device.h"

namespace deckle::testing {
namespace {

class Everywhere : public ::testing::Environment {
  void SetUp() override {
    const char* const name = std::getenv("DECKLE_TEST_FACTORIES");
    if (name != nullptr && name == std::string_view("cuda")) there_.emplace(Device::cuda());
  }
  void TearDown() override { there_.reset(); }

  std::optional<OnDevice> there_;
};

const ::testing::Environment* const kEverywhere = ::testing::AddGlobalTestEnvironment(new Everywhere);

}  // namespace
}  // namespace deckle::testing
