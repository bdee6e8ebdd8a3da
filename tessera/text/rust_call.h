// The seam to the Rust library: ownership of what it returns and its codes as tessera::Error.
#pragma once

#include <tessera_text.h>

#include <string_view>

namespace tessera::text {

inline tessera_text_slice slice(std::string_view text) { return {text.data(), text.size()}; }

/// Frees a buffer, ids or ranges that the library filled.
struct Release {
  void operator()(tessera_text_buffer& buffer) const { tessera_text_free_buffer(&buffer); }
  void operator()(tessera_text_ids& ids) const { tessera_text_free_ids(&ids); }
  void operator()(tessera_text_ranges& ranges) const { tessera_text_free_ranges(&ranges); }
};

/// An output of the library; empty until a call fills it.
template <typename T>
class Output {
 public:
  Output() = default;
  ~Output() { Release{}(value_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  T* get() { return &value_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_{};
};

using OutputText = Output<tessera_text_buffer>;

/// Throws the Error that `code` and `message` stand for, unless the code is TESSERA_TEXT_OK.
/// `area` opens the message, as in "[text.load] file: ".
void check(tessera_text_code code, const OutputText& message, std::string_view area);

}  // namespace tessera::text
