#include "deckle/base/scratch.h"

#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/base/parallel.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(Scratch, PiecesAreAlignedAndApart) {
  Scratch scratch;
  std::vector<char*> pieces;
  for (const int64_t size : {1, 63, 64, 1000, 5 << 20, 3, 9 << 20}) {
    char* const piece = scratch.take<char>(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    std::memset(piece, static_cast<int>(pieces.size()), static_cast<size_t>(size));
    pieces.push_back(piece);
  }
  for (size_t i = 0; i < pieces.size(); ++i) EXPECT_EQ(*pieces[i], static_cast<char>(i));
}

TEST(Scratch, IsTheSameMemoryFromCallToCall) {
  const auto whole = [] {  // more than one block, until the arena has grown
    Scratch scratch;
    char* const first = scratch.take<char>(3 << 20);
    scratch.take<char>(4 << 20);
    return first;
  };
  whole();
  char* const grown = whole();
  EXPECT_EQ(whole(), grown);
}

TEST(Scratch, InnerFramesGiveBackOnlyTheirOwn) {
  Scratch outer;
  int* const kept = outer.take<int>(1000);
  std::fill_n(kept, 1000, 7);
  char* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    Scratch inner;
    char* const piece = inner.take<char>(6 << 20);
    std::memset(piece, 0, 6 << 20);
    if (i == 0) first = piece;
    EXPECT_EQ(piece, first);
  }
  int* const later = outer.take<int>(1000);
  std::fill_n(later, 1000, 8);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(kept[i], 7);
}

TEST(Scratch, OfThreadsIsTheirOwn) {
  std::vector<char> wrong(8);
  const auto work = [&](int64_t id) {
    for (int round = 0; round < 100; ++round) {
      Scratch scratch;
      auto* const piece = scratch.take<char>(100'000);
      std::memset(piece, static_cast<int>(id), 100'000);
      std::this_thread::yield();
      for (int64_t i = 0; i < 100'000; ++i) wrong[static_cast<size_t>(id)] |= piece[i] != static_cast<char>(id);
    }
  };
  std::vector<std::thread> threads;
  for (int64_t id = 0; id < 4; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  parallel_for(4, 1, [&](int64_t id, int64_t) { work(4 + id); });
  EXPECT_EQ(wrong, std::vector<char>(8));
}

TEST(Scratch, MoreThanThereIsIsAnError) {
  testing::expect_error([] { Scratch().take<double>(std::numeric_limits<int64_t>::max()); }, "no memory for");
  testing::expect_error([] { Scratch().take<char>(int64_t{1} << 60); }, "no memory for");
  Scratch scratch;
  *scratch.take<char>(1) = 1;
}

}  // namespace
}  // namespace deckle
