// Entries that nobody wrote: drawn, generated, compiled, and held to an interpreter of their trees and to differences. A failure
// ends with a small entry that still fails. DECKLE_TEST_ENTRIES=200 draws more than ten.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/opgen/random/batch.h"
#include "tests/opgen/random/draw.h"
#include "tests/opgen/random/trees.h"
#include "tests/opgen/random/write.h"
#include "tests/support/random.h"

namespace deckle::random_entries {
namespace {

constexpr int kPerBatch = 20;  // of which the compiler takes some seconds

std::vector<Entry> draw_batch(Engine& engine, int count) {
  static const std::vector<Entry::Kind> kKinds = {Entry::Kind::automatic, Entry::Kind::automatic, Entry::Kind::written,
                                                  Entry::Kind::kernel, Entry::Kind::composite};
  std::vector<Entry> entries;
  entries.reserve(static_cast<size_t>(count));  // they are pointed at
  Entries earlier;
  for (int i = 0; i < count; ++i) {
    entries.push_back(draw_entry(engine, kKinds[static_cast<size_t>(i) % kKinds.size()], fmt::format("drawn{}", i), earlier));
    earlier[entries.back().name] = &entries.back();
  }
  return entries;
}

int64_t size_of(const Entry& entry) {
  int64_t parts = static_cast<int64_t>(entry.arguments.size() + entry.results.size());
  for (const auto& [let, tree] : entry.lets) parts += 1 + tree->parts;
  for (const ExprPtr& body : entry.bodies) parts += body->parts;
  return parts + (entry.inplace ? 1 : 0) + (entry.out ? 1 : 0);
}

/// Entries that are smaller in one thing each.
std::vector<Entry> smaller_than(const Entry& entry) {
  std::vector<Entry> found;
  const auto add = [&](auto change) {
    Entry one = entry;
    change(one);
    found.push_back(std::move(one));
  };
  if (entry.inplace) add([](Entry& one) { one.inplace = false; });
  if (entry.out) add([](Entry& one) { one.out = false; });
  if (!entry.lets.empty()) {
    add([&](Entry& one) {
      for (ExprPtr& body : one.bodies) body = inlined(entry, body);
      one.lets.clear();
    });
  }
  for (size_t i = 0; i < entry.bodies.size() && entry.bodies.size() > 1; ++i) {
    add([&](Entry& one) {
      one.bodies.erase(one.bodies.begin() + static_cast<std::ptrdiff_t>(i));
      one.results.erase(one.results.begin() + static_cast<std::ptrdiff_t>(i));
      if (one.results.size() == 1) one.results = {"result"};
    });
  }
  for (size_t i = 1; i < entry.arguments.size(); ++i) {
    const std::string argument = entry.arguments[i].name;
    const bool read = std::any_of(entry.bodies.begin(), entry.bodies.end(),
                                  [&](const ExprPtr& body) { return holds(inlined(entry, body), name(argument)); });
    if (!read) add([&](Entry& one) { one.arguments.erase(one.arguments.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  for (size_t i = 0; i < entry.bodies.size(); ++i) {
    for (const ExprPtr& tree : smaller(entry.bodies[i], {name("self"), number(2)})) {
      if (tree->is(opgen::Expr::Kind::number)) continue;
      add([&](Entry& one) { one.bodies[i] = tree; });
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return size_of(a) < size_of(b); });
  return found;
}

/// The smallest entry found that still fails, with what it fails with.
std::pair<Entry, std::string> shrink(Entry entry, std::string wrong, uint64_t seed) {
  if (entry.kind == Entry::Kind::composite) return {entry, wrong};  // others are needed for it
  for (int round = 0; round < 8; ++round) {
    std::vector<Entry> tries;
    for (Entry& one : smaller_than(entry)) {
      if (tries.size() == 24 || size_of(one) >= size_of(entry)) break;
      Sight sight;
      Engine engine(seed);
      try {
        if (draw_point(engine, one, {}).empty()) continue;
      } catch (const std::exception&) {
        continue;  // no tensor is left of a result
      }
      one.name = fmt::format("smaller{}", tries.size());
      tries.push_back(one);
    }
    const auto failures = failures_of(tries, seed);
    const auto still = std::find_if(tries.begin(), tries.end(), [&](const Entry& one) {
      // What opgen refuses is another matter, unless that is what is looked into.
      return failures.count(one.name) && (failures.at(one.name).rfind("opgen", 0) == 0) == (wrong.rfind("opgen", 0) == 0);
    });
    if (still == tries.end()) break;
    entry = *still;
    wrong = failures.at(entry.name);
  }
  return {entry, wrong};
}

/// DECKLE_TEST_OPGEN names another generator, DECKLE_TEST_NO_SHRINKING leaves failures as they are: for tests/opgen/seeded_bugs.
TEST(RandomEntries, AgreeWithTheInterpreterAndWithDifferences) {
  const char* const more = std::getenv("DECKLE_TEST_ENTRIES");
  const int wanted = more != nullptr ? std::atoi(more) : 10;
  ASSERT_GT(wanted, 0) << "DECKLE_TEST_ENTRIES is no number of entries";
  Engine engine(testing::seed());
  int shrunk = 0;
  for (int done = 0; done < wanted; done += kPerBatch) {
    const std::vector<Entry> batch = draw_batch(engine, std::min(kPerBatch, wanted - done));
    const uint64_t seed = engine();
    for (const auto& failure : failures_of(batch, seed)) {
      const auto& name = failure.first;
      const auto& wrong = failure.second;
      const auto found = std::find_if(batch.begin(), batch.end(), [&](const Entry& entry) { return entry.name == name; });
      if (found == batch.end()) {
        ADD_FAILURE() << wrong;
        continue;
      }
      ADD_FAILURE() << name << ": " << wrong << "\n" << yaml_of(*found);
      if (++shrunk > 3 || std::getenv("DECKLE_TEST_NO_SHRINKING") != nullptr) continue;  // each takes some seconds
      const auto [small, still] = shrink(*found, wrong, seed);
      if (size_of(small) < size_of(*found)) fmt::print("A smaller entry fails too: {}\n{}\n", still, yaml_of(small));
    }
  }
}

}  // namespace
}  // namespace deckle::random_entries
