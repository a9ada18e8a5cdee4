#include "tools/deckle/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <unordered_set>

#include "deckle/base/check.h"
#include "deckle/io/batches.h"
#include "deckle/io/text_files.h"
#include "deckle/io/utf8.h"
#include "tools/deckle/interrupt.h"
#include "tools/deckle/model_file.h"
#include "tools/deckle/numbers.h"
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

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

struct Text {
  std::string prompt;
  std::string bytes;  // the prompt not counted
  bool complete = false;
};

/// Generates several texts at a time and prints them in order: each byte as soon as it is generated and the texts before it are
/// complete.
class Sampling {
 public:
  Sampling(const nn::DecoderLM& model, const SampleRequest& request)
      : request_(request),
        prompts_(request.prompts.empty() ? std::vector<std::string>{""} : request.prompts),
        wanted_(request.texts == 0 || request.texts > kEndless / std::ssize(prompts_) ? kEndless
                                                                                      : request.texts * std::ssize(prompts_)),
        sampler_(model, request.drawing) {}

  void run() {
    while (printing()) {
      while (sampler_.size() < request_.together && more_wanted()) {
        places_.push_back(texts_.size());
        begin([&](const std::vector<int64_t>& prompt, uint64_t seed) { sampler_.add(prompt, seed); });
      }
      print();
      if (printing()) make_tokens();
    }
    if (begun_) put(stdout, "\n");
  }

  /// Everything printed, with a newline after each text, without the prompts.
  const std::string& printed() const { return printed_; }
  /// Tokens that were drawn.
  int64_t tokens() const { return tokens_; }

 private:
  bool more_wanted() const { return std::ssize(texts_) < wanted_; }
  bool printing() const {
    return !interrupted() && shown_ < wanted_ && (request_.texts > 0 || shown_ == 0 || std::ssize(printed_) < request_.length);
  }

  /// Starts the next text: its prompt and seed go to the sampler.
  template <typename Join>
  void begin(Join&& join) {
    const size_t number = texts_.size();
    texts_.push_back({.prompt = prompts_[number % prompts_.size()]});
    std::vector<int64_t> tokens{io::kTextBoundary};
    for (const char byte : texts_.back().prompt) tokens.push_back(static_cast<unsigned char>(byte));
    join(tokens, request_.seed + number);
  }

  /// One token for each active text; a completed text is replaced by the next.
  void make_tokens() {
    const std::vector<int64_t> tokens = sampler_.next();
    tokens_ += std::ssize(tokens);
    for (size_t place = tokens.size(); place-- > 0;) {
      Text& text = texts_[places_[place]];
      const bool ends = tokens[place] == io::kTextBoundary;
      if (!ends && std::ssize(text.bytes) < request_.length) text.bytes += static_cast<char>(tokens[place]);
      text.complete = ends || std::ssize(text.bytes) >= request_.length;
      if (!text.complete) continue;
      if (more_wanted()) {
        places_[place] = texts_.size();
        begin([&](const std::vector<int64_t>& prompt, uint64_t seed) {
          sampler_.replace(static_cast<int64_t>(place), prompt, seed);
        });
      } else {
        sampler_.remove(static_cast<int64_t>(place));
        places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(place));
      }
    }
  }

  void print() {
    while (printing() && shown_ < std::ssize(texts_)) {
      const Text& text = texts_[static_cast<size_t>(shown_)];
      if (!begun_) {
        put(stdout, (shown_ > 0 ? "%\n" : "") + text.prompt);
        // If all texts share the length, their newlines count too, so that empty texts cannot go on forever.
        limit_ = request_.length - (request_.texts == 0 ? std::ssize(printed_) : 0);
        shown_bytes_ = 0;
        begun_ = true;
      }
      const int64_t end = std::min(limit_, std::ssize(text.bytes));
      const std::string fresh = text.bytes.substr(static_cast<size_t>(shown_bytes_), static_cast<size_t>(end - shown_bytes_));
      put(stdout, fresh);
      printed_ += fresh;
      shown_bytes_ = end;
      if (!text.complete && shown_bytes_ < limit_) break;
      put(stdout, "\n");
      printed_ += "\n";
      begun_ = false;
      ++shown_;
    }
    check_output();
  }

  const SampleRequest& request_;
  std::vector<std::string> prompts_;
  int64_t wanted_;  // texts
  nn::SequenceSampler sampler_;
  std::vector<Text> texts_;     // that were begun
  std::vector<size_t> places_;  // which of them each sequence of the sampler is
  int64_t shown_ = 0;           // texts that are printed
  bool begun_ = false;          // whether a part of the next one is, of at most limit_ bytes
  int64_t limit_ = 0, shown_bytes_ = 0;
  std::string printed_;
  int64_t tokens_ = 0;
};

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
  for (const std::string& prompt : request.prompts)
    check(io::find_invalid_utf8(prompt) == std::string::npos, "the prompt is not valid UTF-8");
  LoadedModel loaded = load_model(request.run);
  loaded.model.to(request.dtype);
  loaded.model.to(request.device);
  Sampling sampling(loaded.model, request);
  const auto start = std::chrono::steady_clock::now();
  sampling.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (request.speed)
    put(stderr, fmt::format("{} in {:.2f} s, {:.0f} tokens/s\n", count_text(sampling.tokens(), "token"), seconds,
                            static_cast<double>(sampling.tokens()) / seconds));
  if (request.words) {
    const io::TextStore texts = io::read_texts(
        std::vector<std::filesystem::path>(loaded.options.text.begin(), loaded.options.text.end()), loaded.options.reading);
    std::string joined;
    for (int64_t i = 0; i < texts.size(); ++i) joined.append(texts[i]).append("\n");
    put(stderr,
        fmt::format("{:.0f} % of the words occur in the texts of the run\n", 100 * known_words(sampling.printed(), joined)));
  }
}

}  // namespace deckle::cli
