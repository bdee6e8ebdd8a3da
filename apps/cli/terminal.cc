#include "apps/cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "apps/cli/output.h"

namespace tessera::cli {
namespace {

constexpr int kBarWidth = 30;
// Redrawing more often than the eye follows only costs time.
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

std::string amount_text(uint64_t amount, ProgressUnit unit) {
  return unit == ProgressUnit::kBytes ? human_bytes(amount) : std::to_string(amount);
}

}  // namespace

bool is_input_terminal() { return isatty(STDIN_FILENO) == 1; }
bool is_output_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool is_message_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

std::string progress_line(const std::string& label, uint64_t done, uint64_t total, int bar_width,
                          ProgressUnit unit) {
  if (total == 0) return fmt::format("{} {}", label, amount_text(done, unit));
  const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<size_t>(fraction * bar_width);
  const std::string bar =
      std::string(filled, '#') + std::string(static_cast<size_t>(bar_width) - filled, '.');
  return fmt::format("{} [{}] {:3.0f} % of {}", label, bar, fraction * 100, amount_text(total, unit));
}

ProgressBar::ProgressBar(ProgressUnit unit) : unit_(unit), is_enabled_(is_message_terminal()) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) write_message("\n");
}

void ProgressBar::update(const std::string& label, uint64_t done, uint64_t total) {
  if (!is_enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool is_new = label != last_label_;
  const bool is_done = total > 0 && done >= total;
  if (!is_new && !is_done && now - last_draw_ < kRedrawInterval) return;
  if (is_new && is_drawn_) write_message("\n");
  // \r returns to the start of the line, ESC [K clears what a longer text left behind.
  write_message("\r" + progress_line(label, done, total, kBarWidth, unit_) + "\x1b[K");
  is_drawn_ = true;
  last_draw_ = now;
  last_label_ = label;
}

}  // namespace tessera::cli
