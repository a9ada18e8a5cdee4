#include "tools/deckle/sampling.h"

#include <cctype>
#include <unordered_set>

#include "deckle/base/check.h"
#include "deckle/io/batches.h"
#include "deckle/io/text_files.h"
#include "deckle/io/utf8.h"
#include "tools/deckle/interrupt.h"
#include "tools/deckle/model_file.h"
#include "tools/deckle/output.h"

namespace deckle::cli {

namespace {

/// Calls `use` on every word, in lower case. Bytes above 127 count as letters, so words of any language stay whole.
template <typename Use>
void each_word(const std::string& text, Use&& use) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const auto byte = i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(' ');
    if (byte >= 0x80 || std::isalpha(byte) != 0) {
      word += static_cast<char>(byte < 0x80 ? byte | 0x20 : byte);
    } else if (!word.empty()) {
      use(word);
      word.clear();
    }
  }
}

/// One text, printed byte by byte; stops at its end or after `length` bytes.
std::string print_text(const nn::DecoderLM& model, const SampleRequest& request, int64_t length, Generator& generator) {
  std::vector<int64_t> prompt{io::kTextBoundary};
  for (const char byte : request.prompt) prompt.push_back(static_cast<unsigned char>(byte));
  nn::SequenceSampler sampler(model, prompt, request.drawing, generator);
  put(stdout, request.prompt);
  std::string text;
  while (static_cast<int64_t>(text.size()) < length && !interrupted()) {
    const int64_t symbol = sampler.next();
    if (symbol == io::kTextBoundary) break;
    text += static_cast<char>(symbol);
    put(stdout, {&text.back(), 1});
    check_output();
  }
  return text;
}

}  // namespace

double known_words(const std::string& sample, const std::string& texts) {
  std::unordered_set<std::string> known;
  each_word(texts, [&](const std::string& word) { known.insert(word); });
  int64_t all = 0;
  int64_t found = 0;
  each_word(sample, [&](const std::string& word) {
    ++all;
    found += known.contains(word) ? 1 : 0;
  });
  return all == 0 ? 1 : static_cast<double>(found) / static_cast<double>(all);
}

void print_sample(const SampleRequest& request) {
  check(io::find_invalid_utf8(request.prompt) == std::string::npos, "the prompt is not valid UTF-8");
  const LoadedModel loaded = load_model(request.run);
  Generator generator(request.seed);
  std::string all;
  for (int64_t text = 0; request.texts == 0 || text < request.texts; ++text) {
    const int64_t left = request.length - static_cast<int64_t>(all.size());
    if ((text > 0 && left <= 0) || interrupted()) break;
    if (text > 0) put(stdout, "%\n");
    // A text without a byte still takes up some of the length: the loop must end.
    all += print_text(loaded.model, request, left, generator) + "\n";
    put(stdout, "\n");
  }
  if (request.words) {
    const io::TextStore texts = io::read_texts(std::vector<std::filesystem::path>(loaded.options.text.begin(), loaded.options.text.end()), loaded.options.reading);
    std::string joined;
    for (int64_t i = 0; i < texts.size(); ++i) joined.append(texts[i]).append("\n");
    put(stderr, fmt::format("{:.0f} % of the words occur in the texts of the run\n", 100 * known_words(all, joined)));
  }
}

}  // namespace deckle::cli
