#pragma once

#include <memory>

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// Streams: work given to one runs in order, beside that of others. Each device has one that is used unless OnStream names
/// another. Memory keeps its order by itself: an op whose operand another stream used waits, on the device, for what that had
/// been given; and a freed block goes back to the stream that took it, which from then on comes after all that used it.
namespace deckle::cuda {

/// A stream of its own; it lives until the process ends.
Stream new_stream(Device device);

/// The stream of this thread's work on a device.
Stream stream(Device device);

/// For its lifetime, this thread's work on the device goes to a stream: one that new_stream made for that device, or its default
/// one, Stream{}.
class OnStream {
 public:
  OnStream(Device device, Stream stream);
  ~OnStream();
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  Device device_;
  Stream former_;
};

/// What comes next in `later` waits for what is in `earlier` now; the host does not wait.
void follow(Device device, Stream later, Stream earlier);

/// A place in the order of a device's work. Refused while this thread records a graph, which has no such places.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  /// After what this thread's stream of the device holds now.
  void record();
  /// What comes next in this thread's stream of `device` comes after it; also on another device.
  void wait(Device device) const;
  /// The host waits for it.
  void synchronize() const;
  /// Whether the device has come to it.
  bool passed() const;
  /// From an event recorded earlier on the same device, both passed.
  double milliseconds_since(const Event& earlier) const;

 private:
  struct State;
  State& usable() const;

  std::unique_ptr<State> state_;
};

}  // namespace deckle::cuda
