// What a terminal adds: a progress bar, and sizes for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::cli {

/// Whether standard input, output or error is a terminal.
bool is_input_terminal();
bool is_output_terminal();
bool is_message_terminal();

/// A size with three digits and a binary unit, for example "97.6 MiB".
std::string human_bytes(uint64_t bytes);

/// What a progress bar counts.
enum class ProgressUnit {
  kBytes,
  kCount,  // plain numbers
};

/// A bar on standard error that redraws one line. Draws nothing unless standard error is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressUnit unit = ProgressUnit::kBytes);
  /// Ends the line, so that a message never continues it.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `total` is 0 when it is not known yet.
  void update(const std::string& label, uint64_t done, uint64_t total);

 private:
  ProgressUnit unit_;
  bool is_drawn_ = false;
  bool is_enabled_ = false;
  std::chrono::steady_clock::time_point last_draw_{};
  std::string last_label_;
};

/// The text of the bar, without the terminal's control characters.
std::string progress_line(const std::string& label, uint64_t done, uint64_t total, int bar_width,
                          ProgressUnit unit = ProgressUnit::kBytes);

}  // namespace tessera::cli
