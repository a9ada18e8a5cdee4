#pragma once

namespace deckle::testing {

/// Built with a sanitizer of memory or of threads: a test of memory would measure the sanitizer's.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

/// `full`, or a tenth of it under a sanitizer, where everything takes ten to fifty times as long.
constexpr int repetitions(int full) { return kSanitized ? full / 10 : full; }

}  // namespace deckle::testing
