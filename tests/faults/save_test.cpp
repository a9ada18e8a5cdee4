// Every call that writes a checkpoint fails in turn, on a full disk and on a bad one, also in the middle of a tensor; writes take
// fewer bytes than they are given, and signals come. A save ends in an Error and leaves the old checkpoint, or is complete.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "deckle/io/checkpoint.h"
#include "deckle/ops/generated/factory.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

extern "C" long counted_writes();  // failing_writes.cpp

namespace deckle::io {
namespace {

using testing::expect_equal;
using testing::random_tensor;

/// What fails, for as long as it lives.
class Fault {
 public:
  Fault(const TemporaryFolder& folder, std::optional<long> at, const char* with, std::optional<long> most) {
    counted_writes();
    ::setenv("FAIL_IN", folder.path().c_str(), 1);
    ::setenv("FAIL_WITH", with, 1);
    if (at) ::setenv("FAIL_AT", std::to_string(*at).c_str(), 1);
    if (most) ::setenv("FAIL_SHORT", std::to_string(*most).c_str(), 1);
  }
  ~Fault() {
    for (const char* name : {"FAIL_IN", "FAIL_WITH", "FAIL_AT", "FAIL_SHORT"}) ::unsetenv(name);
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

Checkpoint checkpoint_of(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  for (const char* name : {"weight", "average", "square"}) checkpoint.tensors[name] = random_tensor({40, 3});
  checkpoint.tensors["empty"] = random_tensor({0});
  checkpoint.set("loss", 0.5);
  return checkpoint;
}

void expect_saved(const Checkpoint& saved, const std::filesystem::path& path) {
  const Checkpoint loaded = load_checkpoint(path);
  EXPECT_EQ(loaded.step, saved.step);
  ASSERT_EQ(loaded.tensors.size(), saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) expect_equal(loaded.tensors.at(name), tensor);
}

/// Saves step 2 beside step 1 and, where step 2 is there, over it; the n-th call fails, for every n. Returns how many calls.
long fail_each_call(const char* with, std::optional<long> most) {
  const char* const said = std::strcmp(with, "EIO") == 0 ? "Input/output error" : "No space left on device";
  const TemporaryFolder folder;
  const Checkpoint first = checkpoint_of(1), second = checkpoint_of(2), third = checkpoint_of(2);
  const std::filesystem::path first_path = save_checkpoint(first, folder.path());
  long calls = 0;
  for (const Checkpoint* const next : {&second, &third}) {
    const std::filesystem::path path = folder / "step-2.safetensors";
    const std::string before = get_file(path);
    {
      const Fault none(folder, {}, with, most);
      save_checkpoint(*next, folder.path());
      calls = counted_writes();
    }
    const std::string complete = get_file(path);
    for (long call = 1; call <= calls; ++call) {
      std::filesystem::remove(path);
      if (!before.empty()) put_file(path, before);
      std::string error;
      {
        const Fault fault(folder, call, with, most);
        try {
          save_checkpoint(*next, folder.path());
        } catch (const Error& caught) {
          EXPECT_EQ(caught.kind(), ErrorKind::io);
          error = caught.what();
        }
      }
      EXPECT_NE(error.find(said), std::string::npos) << "call " << call << " of " << calls << ": " << error;
      const std::string after = get_file(path);  // complete: the rename was not known to be durable
      EXPECT_TRUE(after == before || after == complete) << "call " << call << " of " << calls;
      EXPECT_EQ(folder.entries(), 1 + !after.empty()) << "call " << call << " of " << calls << " leaves a temporary file";
      expect_saved(first, first_path);
    }
    save_checkpoint(*next, folder.path());
    expect_saved(*next, path);
  }
  return calls;
}

TEST(SaveUnderFaults, AFullDiskAtEveryCall) { EXPECT_GT(fail_each_call("ENOSPC", {}), 6); }

TEST(SaveUnderFaults, OneCallFailsWithAnInputOutputError) { EXPECT_GT(fail_each_call("EIO", {}), 6); }

TEST(SaveUnderFaults, InTheMiddleOfATensor) {  // each is 960 bytes
  EXPECT_GT(fail_each_call("EIO", 300), 14);
  EXPECT_GT(fail_each_call("ENOSPC", 300), 14);
}

TEST(SaveUnderFaults, ShortWritesAreContinued) {
  const TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(1);
  for (const long most : {1, 7, 959, 961}) {
    std::filesystem::path path;
    {
      const Fault fault(folder, {}, "EIO", most);
      path = save_checkpoint(checkpoint, folder.path());
      EXPECT_GT(counted_writes(), 2880 / most);
    }
    expect_saved(checkpoint, path);
  }
}

TEST(SaveUnderFaults, ASignalInAnyCallIsNoError) {
  const TemporaryFolder folder;
  const Checkpoint checkpoint = checkpoint_of(1);
  long calls = 1;
  for (long call = 0; call <= calls; ++call) {  // 0: all of them, which are counted
    std::filesystem::path path;
    {
      const Fault fault(folder, call, "EINTR", 300);
      path = save_checkpoint(checkpoint, folder.path());
      if (call == 0) calls = counted_writes();
    }
    expect_saved(checkpoint, path);
    EXPECT_EQ(folder.entries(), 1) << "call " << call << " of " << calls;
  }
  EXPECT_GT(calls, 12);
}

TEST(SaveUnderFaults, AWriteThatTakesNothingIsAnError) {
  const TemporaryFolder folder;
  const Checkpoint first = checkpoint_of(1);
  const std::filesystem::path path = save_checkpoint(first, folder.path());
  ::alarm(20);  // a save that never ends is a failure
  {
    const Fault fault(folder, {}, "EIO", 0);
    testing::expect_error([&] { save_checkpoint(checkpoint_of(2), folder.path()); }, "step-2.safetensors: cannot write: ");
  }
  ::alarm(0);
  expect_saved(first, path);
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace deckle::io
