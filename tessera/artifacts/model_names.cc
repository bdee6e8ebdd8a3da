#include "tessera/artifacts/model_names.h"

#include <algorithm>
#include <cstdio>

#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::concat;

/// An organization's or repository's name. The Hub's own limit is 96 characters.
bool is_hub_part(std::string_view part) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  const auto holds = [&](std::string_view text) { return part.find(text) != std::string_view::npos; };
  return !part.empty() && part.size() <= 96 && part.find_first_not_of(kAllowed) == std::string_view::npos &&
         part.front() != '.' && !holds("..") && !holds("--");
}

}  // namespace

std::string HubName::cache_folder() const {
  const std::size_t slash = repository.find('/');
  return concat("models--", repository.substr(0, slash), "--", repository.substr(slash + 1));
}

std::optional<HubName> parse_hub_name(std::string_view name) {
  const std::size_t at = name.find('@');
  const std::string_view repository = name.substr(0, at);
  const std::size_t slash = repository.find('/');
  if (slash == std::string_view::npos || !is_hub_part(repository.substr(0, slash)) ||
      !is_hub_part(repository.substr(slash + 1))) {
    return std::nullopt;
  }
  HubName hub{.repository = std::string(repository), .revision = std::nullopt};
  if (at == std::string_view::npos) return hub;
  const std::string_view revision = name.substr(at + 1);
  if (!is_safe_path(revision)) return std::nullopt;
  hub.revision = revision;
  return hub;
}

bool is_safe_path(std::string_view path) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) break;
    begin = end + 1;
  }
  return std::none_of(path.begin(), path.end(),
                      [](char c) { return c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string SplitGgufName::part(int index) const {
  char tail[64];  // room for any two ints, so that the compiler sees that nothing is cut off
  std::snprintf(tail, sizeof(tail), "-%05d-of-%05d.gguf", index, n_parts);
  return stem + tail;
}

std::optional<SplitGgufName> parse_split_gguf_name(std::string_view name) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";  // 0 stands for any digit
  if (name.size() <= kPattern.size()) return std::nullopt;
  const std::size_t stem_size = name.size() - kPattern.size();
  const std::string_view tail = name.substr(stem_size);
  const auto fits = [](char pattern, char c) { return pattern == '0' ? c >= '0' && c <= '9' : c == pattern; };
  if (!std::equal(kPattern.begin(), kPattern.end(), tail.begin(), fits)) return std::nullopt;
  constexpr std::size_t kCountBegin = kPattern.find("of-") + 3;
  return SplitGgufName{.stem = std::string(name.substr(0, stem_size)),
                       .n_parts = std::stoi(std::string(tail.substr(kCountBegin, 5)))};
}

std::string gguf_model_key(const std::string& name) {
  const std::optional<SplitGgufName> split = parse_split_gguf_name(name);
  // No file name holds a slash at the end, so a key of parts meets no other file's name.
  return split ? concat(split->stem, " of ", split->n_parts, "/") : name;
}

}  // namespace tessera::artifacts
