#include "tessera/artifacts/json_fields.h"

#include <limits>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::artifacts {

using base::fail_artifact;
using nlohmann::json;

JsonFields::JsonFields(const json& object, const char* where, const std::string& origin, std::string path)
    : object_(object), where_(where), origin_(origin), path_(std::move(path)) {
  if (!object.is_object()) {
    fail_artifact(where, " ", origin, path_.empty() ? "" : ": ", path_, "; expected an object, got ",
                  object.type_name());
  }
}

std::string JsonFields::at(const std::string& key) const {
  return base::concat(where_, " ", origin_, ": ", path_, path_.empty() ? "" : ".", key);
}

const json* JsonFields::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<JsonFields> JsonFields::nested(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return JsonFields(*value, where_, origin_, path_.empty() ? key : path_ + "." + key);
}

std::optional<int64_t> JsonFields::integer(const char* key, int64_t least, int64_t most) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return checked_integer(*value, least, most, at(key));
}

std::optional<double> JsonFields::number(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_artifact(at(key), "; expected a number, got ", value->type_name());
  return value->get<double>();
}

std::optional<bool> JsonFields::boolean(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_artifact(at(key), "; expected true or false, got ", value->type_name());
  return value->get<bool>();
}

std::optional<std::string> JsonFields::string(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_artifact(at(key), "; expected a string, got ", value->type_name());
  return value->get<std::string>();
}

std::optional<std::vector<double>> JsonFields::numbers(const char* key, std::size_t most) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) fail_artifact(at(key), "; expected a list of numbers, got ", value->type_name());
  if (value->size() > most)
    fail_artifact(at(key), " lists ", value->size(), " numbers; expected at most ", most);
  std::vector<double> numbers;
  numbers.reserve(value->size());
  for (const json& number : *value) {
    if (!number.is_number()) {
      fail_artifact(at(key), "; expected a list of numbers, got ", number.type_name(), " in it");
    }
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

int64_t JsonFields::required_integer(const char* key, int64_t least, int64_t most) const {
  const std::optional<int64_t> value = integer(key, least, most);
  if (!value) fail_artifact(at(key), " is missing");
  return *value;
}

int64_t checked_integer(const json& value, int64_t least, int64_t most, const std::string& at) {
  if (!value.is_number_integer()) {
    fail_artifact(at, "; expected an integer, got ", value.is_number() ? "a fraction" : value.type_name());
  }
  const bool is_huge = value.is_number_unsigned() &&
                       value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t number = is_huge ? std::numeric_limits<int64_t>::max() : value.get<int64_t>();
  if (number < least || number > most) {
    fail_artifact(at, "; expected ", least, " to ", most, ", got ",
                  is_huge ? "more than 2^63" : std::to_string(number));
  }
  return number;
}

}  // namespace tessera::artifacts
