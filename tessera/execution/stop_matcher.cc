#include "tessera/execution/stop_matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::execution {
namespace {

/// How long a suffix of `text` may be the beginning of `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) base::fail_argument("[execution.stop] a stop sequence is empty");
  }
}

std::string StopMatcher::append(const std::string& piece) {
  if (!matched_.empty()) return "";
  held_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    // Of two that begin at the same place the one listed first wins; the text before is the same.
    if (at < first) {
      first = at;
      matched_ = stop;
    }
  }
  std::size_t released = held_.size();
  if (!matched_.empty()) {
    released = first;
  } else {
    for (const std::string& stop : stops_) released = std::min(released, held_.size() - overlap(held_, stop));
  }
  std::string text = held_.substr(0, released);
  held_.erase(0, matched_.empty() ? released : held_.size());
  return text;
}

std::string StopMatcher::finish() { return std::exchange(held_, ""); }

}  // namespace tessera::execution
