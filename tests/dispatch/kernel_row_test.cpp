#include "deckle/dispatch/kernel_row.h"

#include <vector>

#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using Kernel = int(int);
int doubled(int x) { return 2 * x; }

TEST(KernelRow, GivesTheKernelOfTheDevice) {
  constexpr dispatch::KernelRow<Kernel> row{&doubled};
  EXPECT_EQ(row.on({})(21), 42);
}

TEST(KernelRow, AnEmptySlotIsAnErrorThatNamesTheDevice) {
  constexpr dispatch::KernelRow<Kernel> row{&doubled}, empty_row{};
  testing::expect_error([&] { row.on(Device::cuda(1)); }, "no CUDA kernel, and its operands are on cuda:1 (expected");
  testing::expect_error([&] { empty_row.on({}); }, "no kernel for cpu");
}

TEST(CommonDevice, IsThatOfTheDefinedTensors) {
  const Tensor x = empty({2});
  EXPECT_EQ(dispatch::common_device({Tensor(), x, Tensor(), x}), Device{});
  EXPECT_EQ(dispatch::common_device(TensorList()), Device{});
}

TEST(CommonDevice, TwoDevicesAreAnError) {
  float element = 0;
  const auto on = [&](Device device) {
    return make_tensor(std::make_shared<Storage>(&element, 4, device, [] {}), {1}, {1}, 0, DType::float32);
  };
  testing::expect_error(
      [&] {
        dispatch::common_device({on({}), on({DeviceKind::cuda, 0})});
      },
      "operands on cpu and cuda:0 (expected one device: x.to(Device::cuda(0)))");
  const std::vector<Tensor> here = {Tensor(), on({})}, there = {on(Device::cuda(1))};
  EXPECT_EQ(dispatch::common_device(std::vector<Tensor>(), there, std::vector<Tensor>(), there), Device::cuda(1));
  testing::expect_error([&] { dispatch::common_device(here, there); }, "operands on cpu and cuda:1 (expected one device");
}

}  // namespace
}  // namespace deckle
