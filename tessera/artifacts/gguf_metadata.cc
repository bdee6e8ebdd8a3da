// What a parsed GGUF file answers: typed metadata, and the parts of a split model as one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;

constexpr uint64_t kLargestSigned = std::numeric_limits<int64_t>::max();

const char* kind_name(const GgufValue& value) {
  constexpr const char* kNames[] = {"a boolean",
                                    "an unsigned integer",
                                    "a signed integer",
                                    "a number",
                                    "a string",
                                    "an array of booleans",
                                    "an array of unsigned integers",
                                    "an array of signed integers",
                                    "an array of numbers",
                                    "an array of strings"};
  return kNames[value.index()];
}

[[noreturn]] void wrong_type(const GgufFile& file, std::string_view key, const char* expected,
                             const GgufValue& value) {
  fail_artifact("[gguf.metadata] ", file.origin(), ": ", key, "; expected ", expected, ", got ",
                kind_name(value));
}

const GgufValue* find(const GgufFile& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? nullptr : &found->second;
}

int64_t to_signed(const GgufFile& file, std::string_view key, uint64_t value) {
  if (value > kLargestSigned)
    fail_artifact("[gguf.metadata] ", file.origin(), ": ", key, " is out of range: ", value);
  return static_cast<int64_t>(value);
}

}  // namespace

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(value)) return to_signed(*this, key, *number);
  wrong_type(*this, key, "an integer", *value);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  wrong_type(*this, key, "a number", *value);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  wrong_type(*this, key, "a boolean", *value);
}

std::optional<std::string> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  wrong_type(*this, key, "a string", *value);
}

const std::vector<std::string>* GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return nullptr;
  if (const auto* texts = std::get_if<std::vector<std::string>>(value)) return texts;
  wrong_type(*this, key, "an array of strings", *value);
}

std::optional<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<double>>(value)) return *numbers;
  const auto widened = [](const auto& integers) {
    std::vector<double> numbers;
    numbers.reserve(integers.size());
    for (const auto number : integers) numbers.push_back(static_cast<double>(number));
    return numbers;
  };
  if (const auto* integers = std::get_if<std::vector<int64_t>>(value)) return widened(*integers);
  if (const auto* integers = std::get_if<std::vector<uint64_t>>(value)) return widened(*integers);
  wrong_type(*this, key, "an array of numbers", *value);
}

std::optional<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(value)) return *integers;
  if (const auto* integers = std::get_if<std::vector<uint64_t>>(value)) {
    std::vector<int64_t> out;
    out.reserve(integers->size());
    for (const uint64_t number : *integers) out.push_back(to_signed(*this, key, number));
    return out;
  }
  wrong_type(*this, key, "an array of integers", *value);
}

void GgufFile::merge(GgufFile part) {
  constexpr const char* kMerge = "[gguf.merge]";
  const int64_t count = integer("split.count").value_or(0);
  const int64_t part_count = part.integer("split.count").value_or(0);
  if (count < 2 || part_count != count) {
    fail_artifact(kMerge, " ", part.origin_, ": split.count; expected ", count, " as in ", origin_, ", got ",
                  part_count);
  }
  if (merged_parts_.empty()) merged_parts_.insert(integer("split.no").value_or(0));
  const int64_t number = part.integer("split.no").value_or(-1);
  if (number < 0 || number >= count || !merged_parts_.insert(number).second) {
    fail_artifact(kMerge, " ", part.origin_, ": split.no; expected a part from 0 to ", count - 1,
                  " that is not there yet, got ", number);
  }
  const std::optional<std::string> other = part.string("general.architecture");
  if (other && other != string("general.architecture")) {
    fail_artifact(kMerge, " ", part.origin_, ": general.architecture is ", in_quotes(*other),
                  ", not that of ", origin_);
  }
  for (auto& [name, tensor] : part.tensors_) {
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      fail_artifact(kMerge, " ", part.origin_, ": tensor ", in_quotes(name), " is already in another part");
    }
  }
}

void GgufFile::check_complete() const {
  constexpr const char* kComplete = "[gguf.check_complete]";
  const int64_t count = integer("split.count").value_or(1);
  if (count < 1) fail_artifact(kComplete, " ", origin_, ": split.count; expected at least 1, got ", count);
  const std::size_t n_parts = std::max<std::size_t>(merged_parts_.size(), 1);
  if (count > 1 && n_parts != static_cast<std::size_t>(count)) {
    fail_artifact(kComplete, " ", origin_, ": ", n_parts, " of ", count, " parts of a split model");
  }
  const std::optional<int64_t> n_tensors = integer("split.tensors.count");
  if (n_tensors && *n_tensors != static_cast<int64_t>(tensors_.size())) {
    fail_artifact(kComplete, " ", origin_, ": split.tensors.count; expected ", *n_tensors, " tensors, got ",
                  tensors_.size());
  }
}

}  // namespace tessera::artifacts
