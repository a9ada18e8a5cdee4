#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace deckle {

/// A vector of trivially copyable values with room for N of them inside the object.
template <typename T, int N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  explicit SmallVector(size_t count, T value = T{}) { resize(count, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <std::input_iterator Iterator>
  SmallVector(Iterator first, Iterator last) {
    reserve(static_cast<size_t>(last - first));
    for (; first != last; ++first) push_back(*first);
  }
  SmallVector(const SmallVector& other) {
    if (other.size_ > N) [[unlikely]]
      reserve(other.size_);
    copy(other);
  }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this == &other) return *this;
    reserve(other.size_);
    copy(other);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }

  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t index) { return data()[index]; }
  const T& operator[](size_t index) const { return data()[index]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void reserve(size_t count) {
    if (count <= capacity_) return;
    const size_t capacity = std::max(count, 2 * capacity_);
    auto larger = std::make_unique<T[]>(capacity);
    std::copy(begin(), end(), larger.get());
    heap_ = std::move(larger);
    capacity_ = capacity;
  }
  void resize(size_t count, T value = T{}) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = count;
  }
  void push_back(T value) {
    reserve(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  iterator insert(const_iterator position, T value) {
    const size_t index = static_cast<size_t>(position - begin());
    push_back(value);
    std::rotate(begin() + index, end() - 1, end());
    return begin() + index;
  }
  iterator erase(const_iterator position) {
    T* at = begin() + (position - begin());
    std::copy(at + 1, end(), at);
    --size_;
    return at;
  }
  void swap(SmallVector& other) noexcept {
    std::swap(inline_, other.inline_);
    std::swap(heap_, other.heap_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  /// Of as many values as there is room for. The room inside is copied whole: its size is known.
  void copy(const SmallVector& other) {
    if (heap_ || other.heap_) [[unlikely]]
      std::copy(other.begin(), other.end(), begin());
    else
      std::copy_n(other.inline_, N, inline_);
    size_ = other.size_;
  }
  void take(SmallVector& other) {
    std::copy_n(other.inline_, N, inline_);
    heap_ = std::move(other.heap_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, N);
  }

  T inline_[N] = {};
  std::unique_ptr<T[]> heap_;
  size_t size_ = 0;
  size_t capacity_ = N;
};

}  // namespace deckle
