#include "deckle/core/cuda/mirror.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {
namespace {

struct Copy {
  Device device;
  std::unique_ptr<Block> block;
};

/// What kernels made of an array.
struct Product {
  Device device;
  std::vector<int64_t> key;
  std::unique_ptr<Block> block;
};

struct Array {
  int64_t bytes = 0;
  int owners = 0;
  std::vector<Copy> copies;
  std::vector<Product> products;
};

constexpr size_t kMostProducts = 256;  // of one array

/// Leaked on purpose: shapes in static storage are dropped after it would be gone.
struct Mirrors {
  std::mutex mutex;
  std::unordered_map<const void*, std::vector<const void*>> owners;
  std::unordered_map<const void*, Array> arrays;
};

Mirrors& mirrors() {
  static auto* const instance = new Mirrors;
  return *instance;
}

}  // namespace

void keep_mirrors(const void* owner, std::initializer_list<std::span<const std::byte>> arrays) {
  if (!in_use() || in_child_of_fork()) return;
  Mirrors& all = mirrors();
  const std::lock_guard lock(all.mutex);
  auto [entry, is_new] = all.owners.try_emplace(owner);
  if (!is_new) return;
  for (const std::span<const std::byte> array : arrays) {
    if (array.empty()) continue;
    const auto bytes = static_cast<int64_t>(array.size());
    Array& kept = all.arrays[array.data()];
    if (kept.owners == 0) kept.bytes = bytes;  // copies have one size
    entry->second.push_back(array.data());
    ++kept.owners;
  }
}

void drop_mirrors(const void* owner) noexcept {
  if (!in_use() || in_child_of_fork()) return;
  Mirrors& all = mirrors();
  const std::lock_guard lock(all.mutex);
  const auto entry = all.owners.find(owner);
  if (entry == all.owners.end()) return;
  for (const void* host : entry->second) {
    const auto found = all.arrays.find(host);
    if (--found->second.owners == 0) all.arrays.erase(found);
  }
  all.owners.erase(entry);
}

const void* mirror_bytes(const void* host, Device device, int64_t least) {
  Mirrors& all = mirrors();
  const std::lock_guard lock(all.mutex);
  const auto found = all.arrays.find(host);
  if (found == all.arrays.end() || found->second.bytes < least) return nullptr;
  std::vector<Copy>& copies = found->second.copies;
  const auto made = std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.device == device; });
  if (made != copies.end()) {
    use(made->block->as<void>(), device);
    return made->block->as<void>();
  }
  auto block = std::make_unique<Block>(found->second.bytes, device);
  copy_bytes(block->as<void>(), device, host, {}, found->second.bytes);
  return copies.emplace_back(Copy{device, std::move(block)}).block->as<void>();
}

const void* made_of(const void* host, Device device, std::span<const int64_t> key, int64_t bytes,
                    const std::function<void(void*)>& make) {
  Mirrors& all = mirrors();
  const std::lock_guard lock(all.mutex);
  const auto found = all.arrays.find(host);
  if (found == all.arrays.end() || bytes == 0) return nullptr;
  std::vector<Product>& products = found->second.products;
  for (const Product& each : products) {
    if (each.device != device || !std::ranges::equal(each.key, key)) continue;
    use(each.block->as<void>(), device);
    return each.block->as<void>();
  }
  if (capturing() || products.size() >= kMostProducts) return nullptr;
  auto block = std::make_unique<Block>(bytes, device);
  make(block->as<void>());
  return products.emplace_back(Product{device, {key.begin(), key.end()}, std::move(block)}).block->as<void>();
}

}  // namespace deckle::cuda
