#include "deckle/io/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "deckle/io/utf8.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_folder.h"

namespace deckle::io {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> texts_of(const TextDataset& data) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < data.size(); ++i) texts.emplace_back(data[i]);
  return texts;
}

std::vector<std::string> read(std::string_view contents, const std::string& name = "x.txt", const TextOptions& options = {}) {
  const TemporaryFolder folder;
  put_file(folder / name, contents);
  return texts_of(TextDataset(folder / name, options));
}

TextDataset numbered(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(std::to_string(i) + std::string(static_cast<size_t>(i * 37 % 23), '.'));
  return TextDataset::from_texts(texts);
}

TEST(TextDataset, ALoopOfLinksIsAnErrorWithItsPath) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  EXPECT_THAT(error_of([&] { TextDataset(folder / "loop"); }), HasSubstr("loop: cannot open: Too many levels"));
}

TEST(TextDataset, TextsFromMemoryMustBeUtf8Too) {
  const std::vector<std::string> texts{"fine",
                                       "a\xff"
                                       "b"};
  EXPECT_THAT(error_of([&] { TextDataset::from_texts(texts); }),
              Eq("TextDataset::from_texts: text 1: not valid UTF-8 (byte 0xff at 1)"));
}

/// The texts of a batch, without their boundaries.
std::vector<std::string> texts_in(const NestedTensor& batch) {
  std::vector<std::string> texts;
  const auto offsets = batch.ragged()->offsets();
  const auto* symbols = batch.values().data<int64_t>();
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    EXPECT_EQ(symbols[offsets[b]], kTextBoundary);
    EXPECT_EQ(symbols[offsets[b + 1] - 1], kTextBoundary);
    std::string text;
    for (int64_t i = offsets[b] + 1; i + 1 < offsets[b + 1]; ++i) text += static_cast<char>(symbols[i]);
    texts.push_back(text);
  }
  return texts;
}

std::vector<std::vector<std::string>> all_batches(Batches batches) {
  std::vector<std::vector<std::string>> all;
  for (const NestedTensor& batch : batches) all.push_back(texts_in(batch));
  return all;
}

TEST(TextFiles, LinesWithEitherEndAndWithoutTheLast) {
  EXPECT_THAT(read("one\ntwo\r\n\n  \nthree"), ElementsAre("one", "two", "three"));
  EXPECT_THAT(read("\xEF\xBB\xBFone\n"), ElementsAre("one"));
}

TEST(TextFiles, PercentSeparatorsAreFound) {
  EXPECT_THAT(read("one\n 1\n%\ntwo\n%\n%\n\n%\n100 %\n%\n"), ElementsAre("one\n 1", "two", "100 %"));
  EXPECT_THAT(read("one\n%\ntwo", "x", {.format = TextFormat::lines}), ElementsAre("one", "%", "two"));
}

TEST(TextFiles, JsonLinesGiveAField) {
  const char* contents = "{\"text\": \"a\\nb\", \"id\": 1}\n\n{\"id\": 2, \"text\": \"\\u00fc\"}\n";
  EXPECT_THAT(read(contents, "x.jsonl"), ElementsAre("a\nb", "ü"));
  EXPECT_THAT(read("{\"body\": \"b\"}", "x.jsonl", {.field = "body"}), ElementsAre("b"));
  EXPECT_THAT(error_of([&] { read("{\"text\": \"a\"}\n{\"text\": 3}", "x.jsonl"); }),
              HasSubstr("line 2: has no text at \"text\""));
  EXPECT_THAT(error_of([&] { read("{\"text\": \"a\"}\n{]", "x.jsonl"); }), HasSubstr("line 2: not valid JSON"));
  EXPECT_THAT(error_of([&] { read("[1]", "x.jsonl"); }), HasSubstr("line 1: expected a JSON object"));
}

TEST(TextFiles, LongTextsAreCutBetweenCharacters) {
  EXPECT_THAT(read("abcdefgh", "x", {.max_length = 3}), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(read("aüüa", "x", {.max_length = 4}), ElementsAre("aü", "üa"));
  EXPECT_THAT(read("aüü", "x", {.max_length = 1}), ElementsAre("a", "ü", "ü"));
}

TEST(TextFiles, BadInputIsNamedWithItsLine) {
  EXPECT_THAT(error_of([] { read("good\nbad \xff\n"); }), HasSubstr("x.txt: line 2: not valid UTF-8 (byte 0xff)"));
  EXPECT_THAT(error_of([] { read(""); }), HasSubstr("x.txt: holds no text"));
  EXPECT_THAT(error_of([] { read(" \n\n"); }), HasSubstr("holds no text"));
  EXPECT_THAT(error_of([] { TextDataset("/nonexistent/x"); }), HasSubstr("/nonexistent/x: cannot open: No such file"));
}

TEST(TextFiles, AFolderStandsForItsTexts) {
  const TemporaryFolder folder;
  put_file(folder / "b", "from b\n%\nagain");
  put_file(folder / "b.dat", std::string("\0\xff index", 8));
  put_file(folder / "a", "from a");
  put_file(folder / ".hidden", "no");
  put_file(folder / "nothing", "");
  std::filesystem::create_symlink("a", folder / "a.u8");
  EXPECT_THAT(texts_of(TextDataset(folder.path())), ElementsAre("from a", "from b", "again"));
}

TEST(Utf8, AgreesWithTheDefinitionOnEveryCodePoint) {
  for (uint32_t c = 0; c <= 0x10FFFF; c += (c < 0x900 || (c > 0xD7F0 && c < 0xE010) || c > 0x10FF00) ? 1 : 257) {
    std::string text;
    if (c < 0x80)
      text = {static_cast<char>(c)};
    else if (c < 0x800)
      text = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    else if (c < 0x10000)
      text = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    else
      text = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    EXPECT_EQ(find_invalid_utf8(text), surrogate ? 0 : std::string_view::npos) << c;
    for (size_t cut = 1; cut < text.size(); ++cut) EXPECT_EQ(find_invalid_utf8("12345678" + text.substr(0, cut)), 8u) << c;
  }
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xFE", "\xC3("}) {
    EXPECT_EQ(find_invalid_utf8(bad), 0u);
  }
}

TEST(Batches, HoldEveryTextOnceWithinTheBudget) {
  const TextDataset data = numbered(200);
  const auto batches = all_batches(data.batches({.tokens = 64, .seed = 3}));
  std::multiset<std::string> seen;
  for (const auto& batch : batches) {
    size_t tokens = 0;
    for (const std::string& text : batch) {
      tokens += text.size() + 1;
      seen.insert(text);
    }
    EXPECT_LE(tokens, 64u);
  }
  const auto texts = texts_of(data);
  EXPECT_EQ(seen, std::multiset<std::string>(texts.begin(), texts.end()));
  EXPECT_GT(batches.size(), 10u);
}

TEST(Batches, DependOnSeedAndEpochAlone) {
  const TextDataset data = numbered(100);
  const auto first = all_batches(data.batches({.tokens = 50, .seed = 3, .epochs = 2, .ahead = 1}));
  EXPECT_EQ(first, all_batches(data.batches({.tokens = 50, .seed = 3, .epochs = 2, .ahead = 7})));
  EXPECT_NE(first, all_batches(data.batches({.tokens = 50, .seed = 4, .epochs = 2})));
  const auto one_epoch = all_batches(data.batches({.tokens = 50, .seed = 3}));
  ASSERT_GT(first.size(), one_epoch.size());
  EXPECT_TRUE(std::equal(one_epoch.begin(), one_epoch.end(), first.begin()));
  EXPECT_NE(first[0], first[one_epoch.size()]) << "the second epoch has the first one's order";
}

TEST(Batches, GoOnFromAnyPosition) {
  const TextDataset data = numbered(60);
  const BatchOptions options{.tokens = 40, .seed = 9, .epochs = 3};
  std::vector<std::pair<BatchPosition, std::vector<std::string>>> all;
  Batches batches = data.batches(options);
  BatchPosition at;
  while (const std::optional<TextBatch> batch = batches.next()) {
    all.emplace_back(at, texts_in(batch->tokens));
    at = batch->next;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    BatchOptions rest = options;
    rest.start = all[i].first;
    Batches resumed = data.batches(rest);
    for (size_t j = i; j < all.size(); ++j) EXPECT_EQ(texts_in(resumed.next()->tokens), all[j].second) << i << ", " << j;
    EXPECT_FALSE(resumed.next());
  }
}

TEST(Batches, ATextLongerThanTheBudgetIsABatchOfItsOwn) {
  const std::string texts[] = {"a", std::string(100, 'b'), "c"};
  const auto batches = all_batches(TextDataset::from_texts(texts).batches({.tokens = 10, .shuffle = false}));
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_THAT(batches[1], ElementsAre(std::string(100, 'b')));
}

TEST(Batches, MayBeDroppedWithoutEnd) {
  for (int i = 0; i < 20; ++i) {
    Batches batches = numbered(50).batches({.tokens = 20, .epochs = 0});
    for (int taken = 0; taken < i; ++taken) EXPECT_TRUE(batches.next());
  }
}

TEST(Batches, WrongOptionsAreErrors) {
  const TextDataset data = numbered(5);
  EXPECT_THAT(error_of([&] { (void)data.batches({.tokens = 0}); }), HasSubstr("tokens is 0"));
  EXPECT_THAT(error_of([&] { (void)data.batches({.start = {0, 6}}); }), HasSubstr("text 6 of epoch 0 (expected 0 to 5"));
}

TEST(Split, PartsAreDisjointByContentAndStable) {
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i) texts.push_back("text " + std::to_string(i % 1000));
  const auto [training, validation] = TextDataset::from_texts(texts).split(0.1, 5);
  EXPECT_EQ(training.size() + validation.size(), 2000);
  EXPECT_NEAR(static_cast<double>(validation.size()), 200, 80);
  const auto a = texts_of(training);
  const auto b = texts_of(validation);
  for (const std::string& text : b) EXPECT_EQ(std::count(a.begin(), a.end(), text), 0) << text;

  texts.emplace_back("one more");
  const auto again = texts_of(TextDataset::from_texts(texts).split(0.1, 5).second);
  EXPECT_EQ(std::vector(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(b.size())), b);
}

TEST(TextDataset, OptionsOutOfRangeAreErrorsOfTheCall) {
  EXPECT_EQ(error_of([] { numbered(2).batches({.tokens = 0}); }),
            "TextDataset::batches: BatchOptions.tokens is 0 (expected 1 or more)");
  EXPECT_EQ(error_of([] {
              numbered(2).batches({.start = {0, 3}});
            }),
            "TextDataset::batches: BatchOptions.start is text 3 of epoch 0 (expected 0 to 2, of epoch 0 or later)");
  EXPECT_EQ(error_of([] { read("a", "x", {.max_length = -1}); }),
            "read_texts: TextOptions.max_length is -1 (expected 0 or more)");
}

TEST(Split, SmallSetsGetBothPartsOrAnError) {
  for (int count = 2; count < 12; ++count) {
    const auto [training, validation] = numbered(count).split(0.05);
    EXPECT_GE(training.size(), 1);
    EXPECT_GE(validation.size(), 1);
  }
  EXPECT_THAT(error_of([] { (void)numbered(1).split(0.5); }), StartsWith("TextDataset::split: 1 text cannot be split"));
  EXPECT_THAT(error_of([] { (void)numbered(2).split(1.5); }), StartsWith("TextDataset::split: the share of validation texts is"));
  EXPECT_THAT(error_of([] { (void)numbered(9).split(1.0); }), HasSubstr("expected between 0 and 1"));
}

TEST(TextDataset, SummaryAndFingerprint) {
  const std::string texts[] = {"a", "bbb", "cc", "dddddd"};
  const TextDataset data = TextDataset::from_texts(texts);
  const LengthSummary lengths = data.lengths();
  EXPECT_EQ(lengths.min, 1);
  EXPECT_EQ(lengths.max, 6);
  EXPECT_EQ(lengths.median, 3);
  EXPECT_EQ(lengths.total, 12);
  const std::string swapped[] = {"bbb", "a", "cc", "dddddd"};
  const std::string moved[] = {"ab", "bb", "cc", "dddddd"};
  EXPECT_EQ(data.fingerprint(), TextDataset::from_texts(texts).fingerprint());
  EXPECT_NE(data.fingerprint(), TextDataset::from_texts(swapped).fingerprint());
  EXPECT_NE(data.fingerprint(), TextDataset::from_texts(moved).fingerprint());
  // Rows with boundaries: 3, 5, 4, 8 in a batch padded to 8.
  EXPECT_DOUBLE_EQ(data.padding_share({.tokens = 100}), 1 - 20.0 / 32.0);
}

}  // namespace
}  // namespace deckle::io
