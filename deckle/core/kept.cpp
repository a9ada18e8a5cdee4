#include "deckle/core/kept.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace deckle {
namespace {

constexpr size_t kMostKept = 32;
constexpr int kMostGenerations = 64;

struct Kept {
  std::string_view what;  // a literal
  std::vector<int64_t> numbers;
  std::vector<std::weak_ptr<const RaggedShape>> others;
  Device device;
  std::shared_ptr<const void> value;

  bool is(std::string_view of, IntSpan with, std::span<const Ragged> beside, Device on) const {
    const auto same = [](const std::weak_ptr<const RaggedShape>& one, const Ragged& other) {
      return !one.owner_before(other.shared()) && !other.shared().owner_before(one);
    };
    return device == on && what == of && std::equal(numbers.begin(), numbers.end(), with.begin(), with.end()) &&
           std::equal(others.begin(), others.end(), beside.begin(), beside.end(), same);
  }
};

/// Of one shape.
struct Shelf {
  std::vector<Kept> kept;  // oldest first
  int generation = 0;      // how many shapes stand between it and one that was not made for a shelf
};

/// Leaked on purpose: shapes in static storage are dropped after it would be gone.
struct Shelves {
  std::mutex mutex;
  std::unordered_map<const RowMap*, Shelf> of;
};

Shelves& shelves() {
  static Shelves* const instance = [] {
    auto* const made = new Shelves;
    pthread_atfork([] { shelves().mutex.lock(); }, [] { shelves().mutex.unlock(); }, [] { shelves().mutex.unlock(); });
    return made;
  }();
  return *instance;
}

std::atomic<bool> in_use{false};  // shapes of programs that keep nothing ask for no lock

}  // namespace

std::shared_ptr<const void> kept(const RaggedShape& shape, std::string_view what, IntSpan numbers, std::span<const Ragged> others,
                                 Device device, const std::function<std::shared_ptr<const void>()>& make) {
  in_use = true;
  Shelves& all = shelves();
  const RowMap* const map = &shape.row_map();
  const auto known = [&](const Shelf& shelf) -> std::shared_ptr<const void> {
    for (const Kept& each : shelf.kept) {
      if (each.is(what, numbers, others, device)) return each.value;
    }
    return nullptr;
  };
  {
    const std::lock_guard lock(all.mutex);
    if (std::shared_ptr<const void> value = known(all.of[map])) return value;
  }
  std::shared_ptr<const void> value = make(), oldest;  // without the lock: it may ask for more, and what goes may drop shapes
  const std::lock_guard lock(all.mutex);
  Shelf& shelf = all.of[map];
  if (std::shared_ptr<const void> first = known(shelf)) return first;  // that of another thread, which all others have
  if (shelf.generation >= kMostGenerations) return value;
  if (shelf.kept.size() == kMostKept) {
    oldest = std::move(shelf.kept.front().value);
    shelf.kept.erase(shelf.kept.begin());
  }
  Kept added{what, {numbers.begin(), numbers.end()}, {}, device, value};
  for (const Ragged& other : others) added.others.push_back(other.shared());
  shelf.kept.push_back(std::move(added));
  return value;
}

void note_made_shape(const RaggedShape& shape, const RaggedShape& made) {
  Shelves& all = shelves();
  const std::lock_guard lock(all.mutex);
  const int generation = all.of[&shape.row_map()].generation;
  all.of[&made.row_map()].generation = generation + 1;
}

void drop_kept(const RowMap* map) noexcept {
  if (!in_use) return;
  Shelf gone;  // emptied without the lock: it drops shapes
  Shelves& all = shelves();
  const std::lock_guard lock(all.mutex);
  const auto found = all.of.find(map);
  if (found == all.of.end()) return;
  gone = std::move(found->second);
  all.of.erase(found);
}

}  // namespace deckle
