#include "deckle/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "tests/support/expect.h"
#include "tests/support/temporary_folder.h"

namespace deckle::io {
namespace {

using testing::error_of;

TEST(MappedFile, APipeIsRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { MappedFile(folder / "pipe"); }), ::testing::HasSubstr("pipe: not a regular file"));
}

TEST(FolderLock, IsHeldByOneAtATime) {
  const TemporaryFolder folder;
  std::optional<FolderLock> first = FolderLock::take(folder.path());
  ASSERT_TRUE(first);
  EXPECT_FALSE(FolderLock::take(folder.path()));
  const FolderLock moved = std::move(*first);
  first.reset();
  EXPECT_FALSE(FolderLock::take(folder.path()));
  EXPECT_THAT(error_of([&] { FolderLock::take(folder / "no"); }), ::testing::HasSubstr("cannot open the folder"));
  EXPECT_EQ(folder.entries(), 0);
}

TEST(FolderLock, EndsWithItsScope) {
  const TemporaryFolder folder;
  FolderLock::take(folder.path());
  EXPECT_TRUE(FolderLock::take(folder.path()));
}

using ::testing::HasSubstr;

TEST(AtomicFile, CommitReplacesTheFileAndLeavesNoOther) {
  const TemporaryFolder folder;
  put_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new contents");
    EXPECT_EQ(get_file(folder / "a"), "old");
    file.commit();
  }
  EXPECT_EQ(get_file(folder / "a"), "new contents");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  put_file(folder / "a", "old");
  { AtomicFile(folder / "a").write("half"); }
  EXPECT_EQ(get_file(folder / "a"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFile, LeavesThoseOfAnotherProcessOfThisId) {  // of another container, in a folder that both have
  const TemporaryFolder folder;
  const std::string theirs = (folder / "a").string() + ".deckle-tmp-" + std::to_string(::getpid()) + "-";
  for (int64_t i = 0; i < 1000; ++i) put_file(theirs + std::to_string(i), "half");  // by whatever count we come next
  write_file(folder / "a", "new");
  EXPECT_EQ(folder.entries(), 1001);
}

TEST(AtomicFile, AFullDiskIsAnErrorAndKeepsTheOldFile) {
  const TemporaryFolder folder;
  put_file(folder / "a", "old");
  const pid_t child = ::fork();
  if (child == 0) {  // a limit on file sizes fails writes half-way, as a full disk does
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = error_of([&] { write_file(folder / "a", std::string(1'000'000, 'x')); });
    ::_exit(message.find("cannot write") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(get_file(folder / "a"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFile, AMissingFolderIsNamed) {
  const TemporaryFolder folder;
  const std::string message = error_of([&] { write_file(folder / "missing/a", "x"); });
  EXPECT_THAT(message, HasSubstr("missing/a"));
  EXPECT_THAT(message, HasSubstr("No such file or directory"));
}

TEST(RemoveTemporaryFiles, TakesWhatAKilledWriterLeftAndNothingElse) {
  const TemporaryFolder folder;
  put_file(folder / "kept", "1");
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder / "a");
    file.write("half");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(folder.entries(), 2);
  remove_temporary_files(folder.path());
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(get_file(folder / "kept"), "1");
}

TEST(MappedFile, ReadsWhatWasThereWhenItWasOpened) {
  const TemporaryFolder folder;
  put_file(folder / "a", "first");
  put_file(folder / "empty", "");
  const MappedFile file(folder / "a");
  write_file(folder / "a", "another");
  EXPECT_EQ(file.text(), "first");
  EXPECT_EQ(MappedFile(folder / "empty").text(), "");
}

TEST(MappedFile, MissingFilesAndFoldersAreErrors) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { MappedFile(folder / "no"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { MappedFile(folder.path()); }), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace deckle::io
